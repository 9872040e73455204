package kill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"sync"

	"example.org/smartdrive/test/history"
)

// drop forgets an upload.
func (c *client) drop(u *upload) {
	c.uploads = slices.DeleteFunc(c.uploads, func(other *upload) bool { return other == u })
}

func (c *client) someUpload() *upload {
	if len(c.uploads) == 0 {
		return nil
	}
	return c.uploads[c.rand.IntN(len(c.uploads))]
}

// sendParts sends some parts in any order, three at a time; some twice, some torn, some with a
// digest, right or wrong.
func (c *client) sendParts(ctx context.Context) {
	u := c.someUpload()
	if u == nil {
		return
	}
	var jobs []func()
	order := c.rand.Perm(u.parts())
	for _, n := range order[:1+c.rand.IntN(len(order))] {
		switch dice := c.rand.IntN(20); {
		case dice == 0:
			cut := c.rand.Int64N(u.length(n))
			jobs = append(jobs, func() { c.sendTorn(ctx, u, n, cut) })
		case dice == 1:
			jobs = append(jobs, func() { c.sendWrong(ctx, u, n) })
		case dice == 2:
			jobs = append(jobs, func() { c.sendPart(ctx, u, n, false) }, func() { c.sendPart(ctx, u, n, false) })
		case u.acked[n] && dice < 15: // mostly what is missing
		default:
			digest := c.rand.IntN(4) == 0
			jobs = append(jobs, func() { c.sendPart(ctx, u, n, digest) })
		}
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 3)
	for _, job := range jobs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			job()
		})
	}
	all.Wait()
	if u.over {
		c.lookUpload(ctx, u)
	}
}

func (u *upload) length(n int) int64 { return min(mib, u.content.Size-int64(n)*mib) }

func (c *client) partRequest(u *upload, n int) request {
	off := int64(n) * mib
	return request{method: "PUT", path: "/uploads/" + u.id + "/parts/" + strconv.Itoa(n), body: bytes.NewReader(u.content.Bytes(off, u.length(n))), length: u.length(n)}
}

// locked counts and writes down from several goroutines.
func (c *client) partOutcome(u *upload, rec history.Record, r reply) result {
	u.mu.Lock()
	defer u.mu.Unlock()
	res := c.outcome(rec, r, "")
	if res == done && rec.Do == history.Part {
		u.acked[rec.Part] = true
	}
	u.over = u.over || r.status == 410 || r.code == "state"
	return res
}

func (c *client) partIntent(u *upload, do history.Action, n int) history.Record {
	u.mu.Lock()
	defer u.mu.Unlock()
	return c.intent(history.Record{Do: do, Upload: u.id, Part: n})
}

func (c *client) sendPart(ctx context.Context, u *upload, n int, digest bool) {
	q := c.partRequest(u, n)
	if digest {
		sum := sha256.Sum256(u.content.Bytes(int64(n)*mib, u.length(n)))
		q.header = map[string]string{"Content-Digest": "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"}
	}
	rec := c.partIntent(u, history.Part, n)
	r := c.send(ctx, q)
	if c.partOutcome(u, rec, r) == refused {
		c.expect(rec, r, "gone", "state", "quota", "rate")
	}
}

// sendTorn hangs up in the middle of a part. It is not written down: such a part must never be
// there.
func (c *client) sendTorn(ctx context.Context, u *upload, n int, cut int64) {
	q := c.partRequest(u, n)
	q.body = torn(u.content, int64(n)*mib, cut)
	if r := c.send(ctx, q); r.err == nil && r.status < 300 {
		c.fail("%d of %d bytes were accepted as part %d of upload %s", cut, q.length, n, u.id)
	}
}

// sendWrong sends bytes that do not match their digest. They must be discarded, and the stored part
// must stay.
func (c *client) sendWrong(ctx context.Context, u *upload, n int) {
	q := c.partRequest(u, n)
	sum := sha256.Sum256(u.content.Bytes(int64(n)*mib, u.length(n)))
	other := history.Content{Seed: u.content.Seed + 1, Size: u.content.Size}
	q.body = bytes.NewReader(other.Bytes(int64(n)*mib, u.length(n)))
	q.header = map[string]string{"Content-Digest": "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"}
	if r := c.send(ctx, q); r.err == nil && r.status < 300 {
		c.fail("part %d of upload %s was accepted with a digest that it does not have", n, u.id)
	}
}

// dropPart takes a part back.
func (c *client) dropPart(ctx context.Context) {
	u := c.someUpload()
	if u == nil {
		return
	}
	n := c.rand.IntN(u.parts())
	delete(u.acked, n) // whatever comes of it
	rec := c.partIntent(u, history.Drop, n)
	r := c.send(ctx, request{method: "DELETE", path: "/uploads/" + u.id + "/parts/" + strconv.Itoa(n)})
	if c.partOutcome(u, rec, r) == refused {
		c.expect(rec, r, "gone", "state", "quota", "rate")
	}
	if u.over {
		c.lookUpload(ctx, u)
	}
}

// completeUpload completes an upload, usually one with all its parts.
func (c *client) completeUpload(ctx context.Context) {
	u := c.someUpload()
	if u == nil || len(u.missing()) > 0 && c.rand.IntN(10) > 0 {
		return
	}
	body := map[string]any{}
	for ctx.Err() == nil && !c.l.t.Failed() {
		rec := c.intent(history.Record{Do: history.Complete, Upload: u.id, Path: u.path, Seed: u.content.Seed, Size: u.content.Size})
		r := c.send(ctx, request{method: "POST", path: "/uploads/" + u.id + "/complete", body: body})
		v, _ := into[view](r) // a refusal has none
		made := ""
		if v.Node != nil {
			made = v.Node.ID
		}
		switch c.outcome(rec, r, made) {
		case done:
			c.appeared(u.path, made, u.content)
			c.drop(u)
			return
		case unsure:
			c.settleUpload(ctx, u)
			return
		case refused:
		}
		switch r.code {
		case "name-taken", "version-changed":
			body["conflict"] = "replace"
		case "gone":
			c.lookUpload(ctx, u)
			return
		default:
			if r.code == "parts-missing" && len(u.missing()) == 0 {
				c.fail("all parts of upload %s were acknowledged, and complete says: %s", u.id, r)
			}
			c.expect(rec, r, "parts-missing", "quota", "rate", "parent-gone")
			return
		}
	}
}

// settleUpload finds out what became of an upload after an answer was lost that may have made it a
// file.
func (c *client) settleUpload(ctx context.Context, u *upload) {
	c.until(ctx, "upload "+u.id+" is sealed", func() bool {
		v := c.lookUpload(ctx, u)
		return v == nil || v.State != "sealing"
	})
	c.settle(ctx, u.path, u.content)
}

// lookUpload requests an upload and compares it with the acknowledged parts. If the upload has
// ended, it is dropped and lookUpload returns nil.
func (c *client) lookUpload(ctx context.Context, u *upload) *view {
	r := c.insist(ctx, request{method: "GET", path: "/uploads/" + u.id})
	seen := history.Record{User: c.user.name, Client: c.name, Phase: history.Seen, Do: history.LookUpload, Upload: u.id, Status: r.status, State: "gone"}
	if r.status == 410 {
		c.log.Write(seen)
		c.count["found gone"]++
		c.drop(u)
		return nil
	}
	v, err := into[view](r)
	if err != nil {
		if ctx.Err() == nil {
			c.fail("look at upload %s: %v", u.id, err)
		}
		return nil
	}
	seen.State = v.State
	for n := range u.parts() {
		if v.has(n) {
			seen.Received = append(seen.Received, n)
		} else if u.acked[n] && v.State != "done" {
			c.fail("part %d of upload %s was acknowledged; the server (%s) has %v", n, u.id, v.State, v.Received)
		}
	}
	c.log.Write(seen)
	if v.State == "done" {
		c.drop(u)
	}
	return &v
}

func (c *client) cancelUpload(ctx context.Context) {
	u := c.someUpload()
	if u == nil {
		return
	}
	rec := c.intent(history.Record{Do: history.Cancel, Upload: u.id})
	r := c.send(ctx, request{method: "DELETE", path: "/uploads/" + u.id})
	switch c.outcome(rec, r, "") {
	case done:
		c.drop(u)
		if v := c.lookUpload(ctx, u); v != nil {
			c.fail("upload %s was cancelled and is %s", u.id, v.State)
		}
	case unsure:
		c.lookUpload(ctx, u)
	case refused:
		c.expect(rec, r, "gone", "rate")
	}
}

// forgetUpload abandons an upload, which the server must then reclaim in time.
func (c *client) forgetUpload(context.Context) {
	if u := c.someUpload(); u != nil {
		c.drop(u)
	}
}
