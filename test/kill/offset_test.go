package kill

import (
	"bytes"
	"context"
	"encoding/base64"
	"path"
	"strconv"

	"example.org/smartdrive/test/history"
)

// fillByOffset uploads a file through tus in pieces, some of which are interrupted. Bytes that a
// reply or a HEAD has reported must never disappear.
func (c *client) fillByOffset(ctx context.Context) {
	content, at := c.content(mib+c.rand.Int64N(5*mib)), c.somePath()
	for _, u := range c.uploads {
		if u.path == at {
			return
		}
	}
	u := c.beginByOffset(ctx, content, at)
	if u == nil {
		return
	}
	sent := int64(0) // what the server has said that it has
	for ctx.Err() == nil && !c.l.t.Failed() {
		offset, open := c.offsetOf(ctx, u)
		switch {
		case !open:
			return
		case offset < sent:
			c.fail("upload %s had %d bytes and has %d", u.id, sent, offset)
			return
		}
		n := min(1+c.rand.Int64N(2*mib), content.Size-offset)
		if c.rand.IntN(40) == 0 { // it walks away
			return
		}
		if offset+n == content.Size {
			if again := c.lastByOffset(ctx, u, offset); !again {
				return
			}
			continue
		}
		sent = max(offset, c.pieceByOffset(ctx, u, offset, n))
	}
}

func (c *client) beginByOffset(ctx context.Context, content history.Content, at string) *upload {
	rec := c.intent(history.Record{Do: history.Begin, Path: at, Seed: content.Seed, Size: content.Size})
	encode := base64.StdEncoding.EncodeToString
	r := c.send(ctx, request{method: "POST", path: "/tus/", header: map[string]string{
		"Tus-Resumable": "1.0.0", "Upload-Length": strconv.FormatInt(content.Size, 10),
		"Upload-Metadata": "path " + encode([]byte(at)) + ",conflict " + encode([]byte("replace")),
	}})
	intent := rec
	if r.err == nil && r.status == 201 {
		intent.Upload = path.Base(r.header.Get("Location"))
	}
	switch c.outcome(intent, r, "") {
	case done:
		u := &upload{id: intent.Upload, path: at, content: content, acked: map[int]bool{}}
		for part := range u.parts() { // to the checker they may be there, tails too; what an offset acknowledges this client checks
			c.intent(history.Record{Do: history.Part, Upload: u.id, Part: part})
		}
		return u
	case refused:
		c.expect(rec, r, "quota", "too-many-open", "rate", "in-progress")
	case unsure: // nobody knows its address
	}
	return nil
}

// offsetOf returns the offset of an upload; open is false if the upload has ended.
func (c *client) offsetOf(ctx context.Context, u *upload) (offset int64, open bool) {
	r := c.insist(ctx, request{method: "HEAD", path: "/tus/" + u.id, header: map[string]string{"Tus-Resumable": "1.0.0"}})
	if r.err != nil || r.status == 410 {
		return 0, false
	}
	if r.status == 423 {
		return c.offsetOf(ctx, u)
	}
	offset, err := strconv.ParseInt(r.header.Get("Upload-Offset"), 10, 64)
	if err != nil || offset >= u.content.Size {
		c.fail("HEAD of upload %s, whose last bytes were not sent: %d %v", u.id, r.status, r.header)
		return 0, false
	}
	return offset, true
}

func (c *client) byOffset(u *upload, offset, n int64) request {
	return request{
		method: "PATCH", path: "/tus/" + u.id, body: bytes.NewReader(u.content.Bytes(offset, n)), length: n,
		header: map[string]string{
			"Tus-Resumable": "1.0.0", "Upload-Offset": strconv.FormatInt(offset, 10), "Content-Type": "application/offset+octet-stream",
		},
	}
}

// pieceByOffset sends n bytes at offset and returns the number that the server has stored, as far
// as it replied.
func (c *client) pieceByOffset(ctx context.Context, u *upload, offset, n int64) (sent int64) {
	q := c.byOffset(u, offset, n)
	if c.rand.IntN(4) == 0 {
		q.body = torn(u.content, offset, c.rand.Int64N(n))
	}
	r := c.send(ctx, q)
	c.counted("append", r.result(), r)
	if r.result() != done {
		return 0
	}
	sent, err := strconv.ParseInt(r.header.Get("Upload-Offset"), 10, 64)
	if err != nil || sent != offset+n {
		c.fail("%d bytes at %d of upload %s: %s %v", n, offset, u.id, r, r.header)
	}
	return sent
}

// lastByOffset sends the last bytes, which make the file; again: a torn piece, which the HEAD has
// overtaken, came first.
func (c *client) lastByOffset(ctx context.Context, u *upload, offset int64) (again bool) {
	rec := c.intent(history.Record{Do: history.Complete, Upload: u.id, Path: u.path, Seed: u.content.Seed, Size: u.content.Size})
	r := c.send(ctx, c.byOffset(u, offset, u.content.Size-offset))
	made := ""
	if r.result() == done {
		v, _ := into[view](c.insist(ctx, request{method: "GET", path: "/uploads/" + u.id})) // one that is sealing has no node
		if v.Node == nil {
			r.status = 202 // it goes on by itself
		} else {
			made = v.Node.ID
		}
	}
	switch c.outcome(rec, r, made) {
	case done:
		c.count["filled by offset"]++
		c.appeared(u.path, made, u.content)
	case unsure:
		c.settleUpload(ctx, u)
	case refused:
		if r.code == "offset-mismatch" {
			return true
		}
		c.expect(rec, r, "gone", "quota", "rate", "version-changed", "parent-gone")
	}
	return false
}
