package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// methods checks that proxies pass on the HTTP methods of WebDAV.
func (d *doctor) methods(ctx context.Context) Finding {
	var lost []string
	for _, method := range []string{"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "PATCH", "DELETE", "PUT"} {
		if s, err := d.echo(ctx, method, nil, nil); err != nil || s.Method != method {
			lost = append(lost, method)
		}
	}
	if len(lost) > 0 {
		return Finding{
			Check: "methods", Level: Failure, Message: "these methods do not arrive: " + strings.Join(lost, ", ") + ". WebDAV and the apps need them",
			ConfigLines: configLines("(remove limit_except and dav_methods from the location)", "(remove matchers of method)", "(remove <Limit>, <LimitExcept>, AllowMethods and Dav On)", "(remove Method() from the rule)"),
		}
	}
	return ok("methods", "those of WebDAV arrive")
}

// headers checks that proxies pass on the request headers of all protocols.
func (d *doctor) headers(ctx context.Context) Finding {
	sent := map[string]string{
		"Depth": "1", "Destination": d.BaseURL + "/dav/x", "Overwrite": "T", "If": "(<urn:x>)", "If-Match": `"x"`, "X-OC-Mtime": "1", "OC-Total-Length": "1",
		"Upload-Offset": "0", "Tus-Resumable": "1.0.0", "Content-Digest": "sha-256=:eA==:", "Idempotency-Key": "doctor",
	}
	s, err := d.echo(ctx, http.MethodPut, strings.NewReader("x"), sent)
	if err != nil {
		return unknown("headers", err)
	}
	var lost []string
	for name := range sent {
		if !slices.ContainsFunc(s.Headers, func(have string) bool { return strings.EqualFold(have, name) }) {
			lost = append(lost, name)
		}
	}
	if slices.Sort(lost); len(lost) > 0 {
		return Finding{
			Check: "headers", Level: Failure, Message: "these headers do not arrive: " + strings.Join(lost, ", "),
			ConfigLines: configLines("proxy_pass_request_headers on;  # and no proxy_set_header NAME \"\"", "(remove header_up -NAME)", "(remove RequestHeader unset NAME)", "(remove customRequestHeaders with empty values)"),
		}
	}
	return ok("headers", "those of the protocols arrive")
}

// ranges checks that range requests work.
func (d *doctor) ranges(ctx context.Context) Finding {
	a, err := d.probe(ctx, http.MethodGet, "bytes", nil, map[string]string{"Range": "bytes=503-506"})
	if err != nil {
		return unknown("ranges", err)
	}
	if a.code != http.StatusPartialContent || string(a.body) != "3456" {
		return Finding{
			Check: "ranges", Level: Failure, Message: fmt.Sprintf("a part of a file cannot be had (%s, %d bytes): downloads do not go on, videos do not jump", a.status, len(a.body)),
			ConfigLines: configLines("proxy_force_ranges off; proxy_cache off;", "", "(remove RequestHeader unset Range)", ""),
		}
	}
	return ok("ranges", "a part of a file can be had")
}

// paths checks that proxies pass paths on unchanged. The server refuses the two test paths with a
// reason that proves it received them unchanged.
func (d *doctor) paths(ctx context.Context) Finding {
	var wrong []string
	for path, reason := range map[string]string{"echo%2Fx": "slash", "/echo": "empty"} {
		a, err := d.probe(ctx, http.MethodGet, path, nil, nil)
		if err != nil {
			return unknown("paths", err)
		}
		var says struct{ Reason string }
		_ = json.Unmarshal(a.body, &says) // not the server's reply: no reason
		if a.code != http.StatusBadRequest || says.Reason != reason {
			wrong = append(wrong, fmt.Sprintf("…/probe/%s (%s)", path, a.status))
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		return Finding{
			Check: "paths", Level: Warning, Message: "a proxy changes paths: " + strings.Join(wrong, ", ") + ". Names with special characters go wrong",
			ConfigLines: configLines("proxy_pass http://127.0.0.1:8320;  # without a path behind the address; merge_slashes off;", "(no rewrite, no path matchers)",
				"AllowEncodedSlashes NoDecode  and  ProxyPass / http://127.0.0.1:8320/ nocanon", "entryPoints.web.http.sanitizePath: false, and allow encoded slashes"),
		}
	}
	return ok("paths", "they are passed on as they were sent")
}

// login checks that the WebDAV authentication challenge reaches clients without credentials. A
// closed WebDAV head gives an unknown finding.
func (d *doctor) login(ctx context.Context) Finding {
	req, err := http.NewRequestWithContext(ctx, "PROPFIND", d.BaseURL+"/dav/", nil)
	if err != nil {
		return unknown("webdav", err)
	}
	resp, err := d.HTTP.Do(req)
	if err != nil {
		return unknown("webdav", err)
	}
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		return Finding{Check: "webdav", Level: Unknown, Message: "WebDAV is closed (--dav=off)"}
	case resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "":
		return Finding{Check: "webdav", Level: Warning, Message: "who comes without a password is not asked for one (" + resp.Status + "): clients of WebDAV cannot log in"}
	}
	return ok("webdav", "clients are asked for name and password. Windows' own client is deprecated by Microsoft: it takes files up to 4 GiB, and 50 MB unless its registry says more")
}
