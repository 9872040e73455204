package tus

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
)

// draft is the headers of a request of the IETF's draft, and more.
func draft(more ...string) header {
	h := with(append([]string{"Upload-Draft-Interop-Version", "8"}, more...)...)
	delete(h, "Tus-Resumable")
	return h
}

func partial(offset int, complete string, more ...string) header {
	return draft(append([]string{"Content-Type", "application/partial-upload", "Upload-Offset", fmt.Sprint(offset), "Upload-Complete", complete}, more...)...)
}

// interim sends a request and returns the 104 that came before the answer, if there was one.
func (d *drive) interim(method, path string, h header, body io.Reader) (http.Header, answer) {
	d.t.Helper()
	var came http.Header
	ctx := httptrace.WithClientTrace(d.t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == 104 && came == nil {
				came = http.Header(h).Clone()
			}
			return nil
		},
	})
	a, err := d.try(ctx, method, path, h, body)
	if err != nil {
		d.t.Fatal(err)
	}
	return came, a
}

func TestDraftInOneRequest(t *testing.T) {
	t.Parallel()
	d := newDrive(t, "--resumable-draft", "on")
	content := noise(9*mib+1, 80)
	came, a := d.interim(http.MethodPut, "/api/v1/files/in/a.bin?parents=true", draft("Upload-Complete", "?1", "Want-Repr-Digest", "sha-512=5, sha-256=1"), bytes.NewReader(content))
	if sum := sha256.Sum256(content); a.header.Get("Repr-Digest") != "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":" {
		t.Errorf("the digest of the whole: %v", a.header)
	}
	if !strings.HasPrefix(came.Get("Location"), d.url+"/resumable/") || came.Get("Upload-Draft-Interop-Version") != "8" ||
		!strings.HasPrefix(came.Get("Upload-Limit"), "max-size=") || !strings.Contains(came.Get("Upload-Limit"), "max-age=") {
		t.Errorf("the interim response: %v", came)
	}
	var file struct {
		ID, Path string
		Size     int
	}
	if err := json.Unmarshal([]byte(a.body), &file); err != nil || a.status != 201 || a.header.Get("Upload-Complete") != "?1" ||
		file.Path != "/in/a.bin" || file.Size != len(content) || a.header.Get("Location") != "/api/v1/nodes/"+file.ID || a.header.Get("ETag") == "" {
		t.Errorf("the answer: %s %v (%v)", a, a.header, err)
	}
	d.holds("/in/a.bin", content)
	if h := d.ask(http.MethodHead, came.Get("Location"), draft(), nil); h.status != 204 || h.header.Get("Upload-Complete") != "?1" ||
		h.header.Get("Upload-Offset") != fmt.Sprint(len(content)) || h.header.Get("Upload-Length") != fmt.Sprint(len(content)) || h.header.Get("Cache-Control") != "no-store" {
		t.Errorf("HEAD: %d %v", h.status, h.header)
	}
	again := d.ask(http.MethodPut, "/api/v1/files/in/a.bin", draft("Upload-Complete", "?1"), strings.NewReader("new"))
	if again.status != 200 {
		t.Errorf("PUT over it: %s", again)
	}
	d.holds("/in/a.bin", []byte("new"))
	if post := d.ask(http.MethodPost, "/api/v1/files/in/a.bin", draft("Upload-Complete", "?1"), strings.NewReader("x")); post.status != 201 {
		t.Errorf("POST beside it: %s", post)
	}
	d.holds("/in/a%20(2).bin", []byte("x"))
}

func TestDraftInSeveralRequests(t *testing.T) {
	t.Parallel()
	d := newDrive(t, "--resumable-draft", "on")
	content := noise(10*mib, 81)
	a := d.ask(http.MethodPost, "/api/v1/files/b.bin", draft("Upload-Complete", "?0"), bytes.NewReader(content[:mib]))
	at := a.header.Get("Location")
	if a.status != 201 || a.header.Get("Upload-Complete") != "?0" || a.header.Get("Upload-Offset") != fmt.Sprint(mib) {
		t.Fatalf("creation: %s %v", a, a.header)
	}
	sum := sha256.Sum256(content[mib : 9*mib])
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	for _, c := range []struct {
		what   string
		h      header
		body   []byte
		status int
		is     string // problem type
	}{
		{"another offset", partial(5, "?0"), []byte("x"), 409, "#mismatching-upload-offset"},
		{"another type", partial(mib, "?0", "Content-Type", "text/plain"), []byte("x"), 415, ""},
		{"no offset", partial(mib, "?0", "Upload-Offset", "five"), []byte("x"), 400, ""},
		{"complete?", partial(mib, "yes"), []byte("x"), 400, ""},
		{"a wrong digest", partial(mib, "?0", "Content-Digest", digest), []byte("x"), 422, ""},
		{"two lengths", partial(mib, "?1", "Upload-Length", "7"), []byte("x"), 400, "#inconsistent-upload-length"},
		{"right", partial(mib, "?0", "Content-Digest", digest, "Upload-Length", fmt.Sprint(len(content))), content[mib : 9*mib], 204, ""},
		{"another length", partial(9*mib, "?0", "Upload-Length", "7"), nil, 400, "#inconsistent-upload-length"},
		{"too little", partial(9*mib, "?1"), content[:7], 400, "#inconsistent-upload-length"},
	} {
		a := d.ask(http.MethodPatch, at, c.h, bytes.NewReader(c.body))
		var problem struct {
			Type     string
			Expected int `json:"expected-offset"`
			Provided int `json:"provided-offset"`
		}
		if a.status >= 400 {
			must(t, json.Unmarshal([]byte(a.body), &problem))
		}
		if a.status != c.status || !strings.HasSuffix(problem.Type, c.is) {
			t.Fatalf("%s: %s", c.what, a)
		}
		if slices.Contains([]int{400, 409}, a.status) && a.header.Get("Upload-Complete") != "?0" {
			t.Errorf("%s: it does not say that it is not complete: %v", c.what, a.header)
		}
		if a.status == 409 && (problem.Expected != mib || problem.Provided != 5 || a.header.Get("Upload-Offset") != fmt.Sprint(mib)) {
			t.Errorf("%s: %s %v", c.what, a, a.header)
		}
	}
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		if h := d.ask(method, at, draft(), nil); h.status != 204 || h.header.Get("Upload-Offset") != fmt.Sprint(9*mib) || h.header.Get("Upload-Complete") != "?0" {
			t.Errorf("%s: %s %v", method, h, h.header)
		}
	}
	end := d.ask(http.MethodPatch, at, partial(9*mib, "?1"), bytes.NewReader(content[9*mib:]))
	if end.status != 201 || end.header.Get("Upload-Complete") != "?1" || !strings.Contains(end.body, `"path":"/b.bin"`) {
		t.Errorf("the end: %s %v", end, end.header)
	}
	d.holds("/b.bin", content)
	for body, is := range map[string]string{"": "#completed-upload", "x": "#inconsistent-upload-length"} {
		if a := d.ask(http.MethodPatch, at, partial(len(content), "?1"), strings.NewReader(body)); a.status != 400 || !strings.Contains(a.body, is) {
			t.Errorf("after the end: %s", a)
		}
	}

	// More than there is: the upload is over.
	long := d.ask(http.MethodPut, "/api/v1/files/long.bin", draft("Upload-Complete", "?0", "Upload-Length", "10"), strings.NewReader("12345")).header.Get("Location")
	if a := d.ask(http.MethodPatch, long, partial(5, "?0"), strings.NewReader("678901")); a.status != 400 || a.header.Get("Upload-Complete") != "?0" || !strings.Contains(a.body, "#inconsistent-upload-length") {
		t.Errorf("too much: %s %v", a, a.header)
	}
	if a := d.ask(http.MethodPatch, long, partial(5, "?1"), strings.NewReader("67890")); a.status != 410 {
		t.Errorf("after too much: %s", a)
	}

	// A stream whose length is known at its end; cancelled; empty.
	a = d.ask(http.MethodPut, "/api/v1/files/c.bin", draft("Upload-Complete", "?1"), io.MultiReader(bytes.NewReader(content)))
	if a.status != 201 {
		t.Errorf("a stream: %s", a)
	}
	d.holds("/c.bin", content)
	at = d.ask(http.MethodPut, "/api/v1/files/d.bin", draft("Upload-Complete", "?0"), nil).header.Get("Location")
	if a := d.ask(http.MethodDelete, at, draft(), nil); a.status != 204 {
		t.Errorf("DELETE: %s", a)
	}
	if a := d.ask(http.MethodHead, at, draft(), nil); a.status != 410 {
		t.Errorf("HEAD after it: %s", a)
	}
}

func TestDraftIsAnOffer(t *testing.T) {
	t.Parallel()
	d := newDrive(t, "--resumable-draft", "on")
	for i, h := range []header{
		draft("Upload-Complete", "?1", "Upload-Draft-Interop-Version", "7"), draft("Upload-Complete", "?1", "If-None-Match", "*"), draft("Upload-Complete", "1"), {},
	} {
		path := fmt.Sprintf("/api/v1/files/f%d", i)
		if came, a := d.interim(http.MethodPut, path, h, strings.NewReader("hello")); came != nil || a.status != 201 {
			t.Errorf("%v: %v, then %s", h, came, a)
		}
	}
	for _, h := range []header{draft("Upload-Complete", "?0", "Upload-Draft-Interop-Version", ""), draft("Upload-Complete", "?0", "If-Match", "*")} {
		if a := d.ask(http.MethodPut, "/api/v1/files/half", h, strings.NewReader("hel")); a.status != 400 {
			t.Errorf("half a file was taken for a whole one: %v: %s", h, a)
		}
	}
	a := d.ask(http.MethodOptions, "/api/v1/files/x", header{"Authorization": ""}, nil)
	if a.status != 204 || a.header.Get("Accept-Patch") != "application/partial-upload" || !strings.HasPrefix(a.header.Get("Upload-Limit"), "max-size=") {
		t.Errorf("OPTIONS: %d %v", a.status, a.header)
	}
	off := newDrive(t)
	if came, a := off.interim(http.MethodPut, "/api/v1/files/x", draft("Upload-Complete", "?1"), strings.NewReader("hello")); came != nil || a.status != 201 {
		t.Errorf("it is off: %v, then %s", came, a)
	}
	if a := off.ask(http.MethodHead, "/resumable/01a1fbeb-6868-709a-9ef7-d9a59f53c9e1", draft(), nil); a.status != 404 {
		t.Errorf("it is off: %s", a)
	}
}
