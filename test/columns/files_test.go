package columns

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"
)

func fileDeeds() []deed {
	return []deed{
		{"mkdir", 8, mkdir},
		{"put", 16, put},
		{"patch node", 9, patchNode},
		{"copy", 6, copyNode},
		{"trash", 6, trash},
		{"delete", 3, deleteForGood},
		{"restore", 5, restore},
		{"empty trash", 1, emptyTrash},
		{"list trash", 2, func(a *actor, p *person, r *rand.Rand) { a.pages(p, r, "/trash?") }},
		{"children", 5, children},
		{"node", 4, showNode},
		{"download", 10, download},
		{"versions", 3, versions},
		{"restore version", 3, restoreVersion},
		{"changes", 4, changes},
		{"link", 2, link},
		{"open link", 2, openLink},
	}
}

func mkdir(a *actor, p *person, r *rand.Rand) {
	body := map[string]any{"type": "folder"}
	if chance(r, 2) {
		body["path"] = somePath(r)
		set(body, "parents", chance(r, 2))
	} else {
		body["parent"], body["name"] = a.someFolder(p, r), someName(r)
	}
	set(body, "conflict", conflict(r))
	a.create(p, r, request{"POST", "/nodes", body, nil})
}

// create sends what takes an Idempotency-Key, with one or without, and perhaps again.
func (a *actor) create(p *person, r *rand.Rand, q request) {
	if chance(r, 3) {
		key := fmt.Sprintf("key-%d", r.IntN(1000))
		if chance(r, 3) {
			var prepared struct {
				ID string `json:"pre_id"`
			}
			a.do(p, request{"POST", "/prepare", nil, nil}).json(&prepared)
			key = prepared.ID
		}
		q.header = append(q.header, "Idempotency-Key", key)
		p.keyed = append(p.keyed, q)
	}
	// The key in the transcript is a secret only where the server made it, and then it has no
	// second use.
	a.do(p, q)
}

func put(a *actor, p *person, r *rand.Rand) {
	most := int64(2 * mib)
	if chance(r, 8) {
		most = 9 * mib
	}
	content := bytesOf(a.content(r, most))
	q := request{"PUT", "/files" + escaped(somePath(r)), content, nil}
	if f := a.someNode(p, r, "file"); f.path != "" && chance(r, 2) {
		q.path = "/files" + escaped(f.path)
		switch r.IntN(8) {
		case 0:
			q.header = append(q.header, "If-Match", one(r, `"b3-`+f.sum+`"`, "*", `"b3-00"`))
		case 1:
			q.header = append(q.header, "If-None-Match", one(r, `"b3-`+f.sum+`"`, "*", `W/"b3-00", "x"`))
		}
	}
	query := url.Values{}
	if c := conflict(r, "replace"); c != "" {
		query.Set("conflict", c)
	}
	if !chance(r, 3) {
		query.Set("parents", "true")
	}
	q.path += "?" + query.Encode()
	q.header = append(q.header, putHeader(r, content)...)
	if chance(r, 5) {
		q.body = io.MultiReader(bytes.NewReader(content)) // of unknown length
	}
	a.do(p, q)
}

func putHeader(r *rand.Rand, content []byte) (header []string) {
	sum := sha256.Sum256(content)
	if chance(r, 20) {
		sum[0]++
	}
	switch r.IntN(6) {
	case 0:
		header = append(header, "Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	case 1:
		header = append(header, "Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	}
	if chance(r, 3) {
		header = append(header, "X-Mtime", fmt.Sprint(978_307_200_000+r.IntN(1_000_000)))
	}
	if chance(r, 4) {
		header = append(header, "Content-Type", one(r, "text/plain; charset=utf-8", "application/octet-stream", "nonsense", "image/png"))
	}
	return header
}

func escaped(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

func patchNode(a *actor, p *person, r *rand.Rand) {
	n := a.someNode(p, r, "")
	body := map[string]any{}
	if chance(r, 2) {
		body["name"] = someName(r)
	}
	if chance(r, 2) {
		body["parent"] = a.someFolder(p, r)
	}
	if chance(r, 4) {
		body["mtime"] = time.UnixMilli(978_307_200_000 + r.Int64N(1e9)).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	set(body, "conflict", conflict(r, "replace"))
	a.do(p, request{"PATCH", "/nodes/" + n.id, body, revision(r, n)})
}

// revision is a condition on the node's revision, or none.
func revision(r *rand.Rand, n *node) []string {
	if !chance(r, 4) {
		return nil
	}
	return []string{"If-Match", one(r, fmt.Sprintf(`"%d"`, n.rev), fmt.Sprintf(`"%d"`, n.rev+1), "*", `"0"`, "1", `W/"1"`)}
}

func copyNode(a *actor, p *person, r *rand.Rand) {
	n := a.someNode(p, r, one(r, "file", "file", "folder"))
	body := map[string]any{"parent": a.someFolder(p, r)}
	if chance(r, 2) {
		body["name"] = someName(r)
	}
	set(body, "conflict", conflict(r, "replace"))
	a.create(p, r, request{"POST", "/nodes/" + n.id + "/copy", body, nil})
}

func trash(a *actor, p *person, r *rand.Rand) {
	n := a.someNode(p, r, one(r, "file", "file", ""))
	a.do(p, request{"DELETE", "/nodes/" + n.id, nil, revision(r, n)})
}

func deleteForGood(a *actor, p *person, r *rand.Rand) {
	n := a.someNode(p, r, one(r, "file", "file", "file", ""))
	a.do(p, request{"DELETE", "/nodes/" + n.id + "?permanent=true", nil, revision(r, n)})
}

func restore(a *actor, p *person, r *rand.Rand) {
	var gone struct{ Items []struct{ ID string } }
	a.do(p, request{"GET", "/trash?limit=20", nil, nil}).json(&gone)
	id := pick(r, gone.Items).ID
	if id == "" || chance(r, 5) {
		id = a.someNode(p, r, "").id
	}
	body := map[string]any{}
	if chance(r, 3) {
		body["parent"] = a.someFolder(p, r)
	}
	set(body, "conflict", conflict(r, "replace"))
	a.do(p, request{"POST", "/nodes/" + id + "/restore", body, nil})
}

func emptyTrash(a *actor, p *person, _ *rand.Rand) { a.do(p, request{"DELETE", "/trash", nil, nil}) }

func children(a *actor, p *person, r *rand.Rand) {
	path := "/nodes/" + a.someFolder(p, r) + "/children?"
	if chance(r, 2) {
		path += "sort=" + one(r, "name", "size", "mtime") + "&"
	}
	if chance(r, 2) {
		path += "order=" + one(r, "asc", "desc") + "&"
	}
	a.pages(p, r, path)
}

// pages reads a list, page by page.
func (a *actor) pages(p *person, r *rand.Rand, path string) {
	limit := one(r, 2, 3, 7, 1000)
	next := ""
	for range 6 {
		var page struct {
			Next *string `json:"next_cursor"`
		}
		got := a.do(p, request{"GET", fmt.Sprintf("%slimit=%d%s", path, limit, next), nil, nil})
		if !got.json(&page) || page.Next == nil {
			return
		}
		next = "&cursor=" + url.QueryEscape(*page.Next)
	}
}

func showNode(a *actor, p *person, r *rand.Rand) {
	if n := a.someNode(p, r, ""); chance(r, 2) {
		a.do(p, request{"GET", "/nodes/" + n.id, nil, nil})
	} else if path := n.path; path != "" && chance(r, 2) {
		a.do(p, request{"GET", "/nodes?path=" + url.QueryEscape(path), nil, nil})
	} else {
		a.do(p, request{"GET", "/nodes?path=" + url.QueryEscape(somePath(r)), nil, nil})
	}
}

func download(a *actor, p *person, r *rand.Rand) {
	n := a.someNode(p, r, "file")
	q := request{one(r, "GET", "GET", "GET", "HEAD"), "/nodes/" + n.id + "/content", nil, contentHeader(r, n)}
	if v := pick(r, p.versions); v[0] != "" && chance(r, 4) {
		q.path = "/nodes/" + v[0] + "/content?version=" + v[1]
		if chance(r, 4) {
			q.path = "/nodes/" + n.id + "/content?version=" + v[1] // of another node
		}
	} else if chance(r, 6) {
		q.path += "?inline=true"
	}
	a.fetch(p.token, q)
}

func contentHeader(r *rand.Rand, n *node) (header []string) {
	if chance(r, 2) {
		header = append(header, "Range", one(r, "bytes=0-0", "bytes=1-", "bytes=-3", "bytes=0-99,200-299", "bytes=65536-1048580", "bytes=9000000-",
			"bytes=5-2", "bytes=x", "lines=1-2", "bytes=8388600-8388612", "bytes=-0", "bytes=0-0,-1", "bytes=777-"))
	}
	switch r.IntN(8) {
	case 0:
		header = append(header, "If-None-Match", one(r, `"b3-`+n.sum+`"`, `W/"b3-`+n.sum+`"`, "*", `"x"`))
	case 1:
		header = append(header, "If-Match", one(r, `"b3-`+n.sum+`"`, "*", `"x"`))
	case 2:
		header = append(header, "If-Range", one(r, `"b3-`+n.sum+`"`, `"x"`))
	}
	return header
}

// fetch reads bytes, and compares whole files with their entity tag.
func (a *actor) fetch(token string, q request) {
	got := a.as(token, q)
	tag := strings.TrimSuffix(strings.TrimPrefix(got.header.Get("ETag"), `"b3-`), `"`)
	if got.status == 200 && q.method == "GET" && sumOf(got.body) != tag {
		a.fault(fmt.Errorf("%s: %d bytes that are not those of %s", q, len(got.body), tag))
	}
}

func versions(a *actor, p *person, r *rand.Rand) {
	a.noteVersions(p, a.someNode(p, r, one(r, "file", "file", "file", "")).id)
}

func (a *actor) noteVersions(p *person, id string) {
	var page struct{ Items []struct{ ID string } }
	a.do(p, request{"GET", "/nodes/" + id + "/versions?limit=20", nil, nil}).json(&page)
	for _, v := range page.Items {
		p.versions = append(p.versions, [2]string{id, v.ID})
	}
}

func restoreVersion(a *actor, p *person, r *rand.Rand) {
	v := pick(r, p.versions)
	if v[0] == "" {
		v = [2]string{a.someNode(p, r, "file").id, "0198c0de-0000-7000-8000-000000000000"}
	}
	a.create(p, r, request{"POST", "/nodes/" + v[0] + "/versions/" + v[1] + "/restore", nil, nil})
}

func changes(a *actor, p *person, r *rand.Rand) {
	after := p.after
	if chance(r, 6) {
		after = one(r, "", "nonsense", "-1")
	}
	path := fmt.Sprintf("/changes?limit=%d", one(r, 5, 1000))
	if after != "" {
		path += "&after=" + url.QueryEscape(after)
	}
	var page struct{ Next string }
	if a.do(p, request{"GET", path, nil, nil}).json(&page) && page.Next != "" {
		p.after = page.Next
	}
}

func link(a *actor, p *person, r *rand.Rand) {
	body := map[string]any{"expires_in": one(r, 1000, 86400, 86400, 0, 86401)}
	set(body, "disposition", one(r, "", "inline", "attachment", "else"))
	var made struct{ URL string }
	a.do(p, request{"POST", "/nodes/" + a.someNode(p, r, "file").id + "/links", body, nil}).json(&made)
	if _, token, ok := strings.Cut(made.URL, "token="); ok {
		p.links = append(p.links, token)
	}
}

func openLink(a *actor, p *person, r *rand.Rand) {
	token := pick(r, p.links)
	if token == "" || chance(r, 6) {
		token += one(r, "x", "A", "")
	}
	a.fetch("", request{one(r, "GET", "HEAD"), "/links?token=" + token, nil, contentHeader(r, &node{})})
}
