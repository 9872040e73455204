package kill

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"example.org/smartdrive/test/history"
)

func folderOf(p string) string { return path.Dir(p) }

func filesURL(p string) string {
	names := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, name := range names {
		names[i] = url.PathEscape(name)
	}
	return "/files/" + strings.Join(names, "/") + "?parents=true"
}

// putFile sends a whole file in one request: mostly small, sometimes more than a part.
func (c *client) putFile(ctx context.Context) {
	size := c.rand.Int64N(200_000)
	if c.rand.IntN(5) == 0 {
		size = mib + c.rand.Int64N(2*mib)
	}
	content, at := c.content(size), c.somePath()
	rec := c.intent(history.Record{Do: history.Put, Path: at, Seed: content.Seed, Size: content.Size})
	q := request{method: "PUT", path: filesURL(at), body: content.Reader(), length: content.Size}
	if c.rand.IntN(4) == 0 {
		q.length = -1 // chunked
	}
	r := c.send(ctx, q)
	n, _ := into[node](r) // a refusal has none
	switch c.outcome(rec, r, n.ID) {
	case done:
		if n.Digests["blake3"] != c.digests.of(content) || n.Size != content.Size {
			c.fail("PUT of %d bytes made %+v", content.Size, n)
		}
		c.appeared(at, n.ID, content)
	case unsure:
		c.settle(ctx, at, content)
	case refused:
		c.expect(rec, r, "quota", "name-taken", "version-changed", "too-many-open", "rate")
	}
}

// expect fails for refusals that nothing has given a reason for.
func (c *client) expect(rec history.Record, r reply, codes ...string) {
	if !r.unsent && !slices.Contains(codes, r.code) {
		c.fail("op %d: %s was refused: %s", rec.Op, rec.Do, r)
	}
}

// torn is the beginning of a content, after which the client hangs up.
func torn(content history.Content, off, length int64) io.Reader {
	return io.MultiReader(bytes.NewReader(content.Bytes(off, length)), brokenPipe{})
}

type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// putTorn disconnects in the middle of an upload by a single request. No part of the file may ever
// appear, so it is logged as refused.
func (c *client) putTorn(ctx context.Context) {
	content, at := c.content(1+c.rand.Int64N(2*mib)), c.somePath()
	rec := c.intent(history.Record{Do: history.Put, Path: at, Seed: content.Seed, Size: content.Size})
	cut := c.rand.Int64N(content.Size)
	r := c.send(ctx, request{method: "PUT", path: filesURL(at), body: torn(content, 0, cut), length: content.Size})
	if r.err == nil && r.status < 300 {
		c.fail("%d of %d bytes were accepted as a file: %s", cut, content.Size, r)
	}
	c.outcome(rec, reply{unsent: true, err: io.ErrUnexpectedEOF}, "")
	c.count["put torn"]++
}

// change requests a change of one file, and calls happened if it was acknowledged or has taken
// effect. look reports whether it has taken effect when the reply was lost.
func (c *client) change(ctx context.Context, rec history.Record, q request, look func() bool, happened func()) {
	rec = c.intent(rec)
	r := c.send(ctx, q)
	switch c.outcome(rec, r, "") {
	case done:
		happened()
	case unsure:
		if look() {
			happened()
		}
	case refused:
		c.expect(rec, r, "rate")
	}
}

func (c *client) isGone(ctx context.Context, path string) func() bool {
	return func() bool { return c.look(ctx, path) == nil }
}

func (c *client) moveFile(ctx context.Context) {
	f := c.someFile()
	if f == nil {
		return
	}
	to := c.freePath(f.path)
	if to == "" {
		return
	}
	rec := history.Record{Do: history.Move, Node: f.node, Path: f.path, To: to}
	c.change(ctx, rec, request{method: "PATCH", path: "/nodes/" + f.node, body: map[string]any{"name": path.Base(to)}}, func() bool {
		from, there := c.look(ctx, f.path), c.look(ctx, to)
		if (from == nil) == (there == nil) {
			c.fail("a move from %s to %s was left half done", f.path, to)
		}
		return there != nil
	}, func() {
		delete(c.files, f.path)
		f.path = to
		c.files[to] = f
	})
}

func (c *client) trashFile(ctx context.Context) {
	f := c.someFile()
	if f == nil {
		return
	}
	rec := history.Record{Do: history.Trash, Node: f.node, Path: f.path}
	c.change(ctx, rec, request{method: "DELETE", path: "/nodes/" + f.node}, c.isGone(ctx, f.path), func() {
		delete(c.files, f.path)
		c.trash = append(c.trash, f)
	})
}

func (c *client) deleteFile(ctx context.Context) {
	f := c.someFile()
	if f == nil {
		return
	}
	rec := history.Record{Do: history.Delete, Node: f.node, Path: f.path}
	c.change(ctx, rec, request{method: "DELETE", path: "/nodes/" + f.node + "?permanent=true"}, c.isGone(ctx, f.path), func() {
		delete(c.files, f.path)
	})
}

func (c *client) someTrash() int {
	if len(c.trash) == 0 {
		return -1
	}
	return c.rand.IntN(len(c.trash))
}

func (c *client) restoreFile(ctx context.Context) {
	i := c.someTrash()
	if i < 0 || c.files[c.trash[i].path] != nil {
		return
	}
	f := c.trash[i]
	rec := history.Record{Do: history.Restore, Node: f.node, Path: f.path}
	q := request{method: "POST", path: "/nodes/" + f.node + "/restore", body: map[string]any{"conflict": "fail"}}
	c.change(ctx, rec, q, func() bool { return c.look(ctx, f.path) != nil }, func() {
		c.trash = slices.Delete(c.trash, i, i+1)
		c.files[f.path] = f
	})
}

func (c *client) purgeFile(ctx context.Context) {
	i := c.someTrash()
	if i < 0 {
		return
	}
	f := c.trash[i]
	rec := history.Record{Do: history.Purge, Node: f.node}
	q := request{method: "DELETE", path: "/nodes/" + f.node + "?permanent=true"}
	c.change(ctx, rec, q, func() bool { return c.lookNode(ctx, f.node) == nil }, func() { c.trash = slices.Delete(c.trash, i, i+1) })
}

// readFile reads a file back, whole or a range, and compares every byte.
func (c *client) readFile(ctx context.Context) {
	f := c.someFile()
	if f == nil {
		return
	}
	content := f.last()
	q, want, status := request{method: "GET", path: "/nodes/" + f.node + "/content"}, content.Bytes(0, content.Size), 200
	if content.Size > 0 && c.rand.IntN(2) == 0 {
		from := c.rand.Int64N(content.Size)
		length := 1 + c.rand.Int64N(content.Size-from)
		q.header = map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", from, from+length-1)}
		want, status = want[from:from+length], 206
	}
	r := c.send(ctx, q)
	if r.err != nil || r.status == 503 || r.status == 429 {
		return // the server died
	}
	if r.status != status || !bytes.Equal(r.body, want) || r.header.Get("ETag") != `"b3-`+c.digests.of(content)+`"` {
		c.fail("%s of %s (%s) gave %d with %d bytes, ETag %s: not its content", q.header, f.path, f.node, r.status, len(r.body), r.header.Get("ETag"))
	}
	c.count["read"]++
}
