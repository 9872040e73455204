package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/test/history"
)

// upload is an upload begun by a client.
type upload struct {
	id, path string
	content  history.Content

	mu    sync.Mutex
	acked map[int]bool
	over  bool // found to be gone while parts were sent
}

// view is an upload in a response.
type view struct {
	ID       string
	State    string
	Path     string
	Received [][2]int
}

func (v view) has(n int) bool {
	return slices.ContainsFunc(v.Received, func(r [2]int) bool { return r[0] <= n && n <= r[1] })
}

func (u *upload) parts() int { return int((u.content.Size + partSize - 1) / partSize) }

func (u *upload) missing() (list []int) {
	for n := range u.parts() {
		if !u.acked[n] {
			list = append(list, n)
		}
	}
	return list
}

// some returns a random upload, nil if there is none.
func (a *actor) some() *upload {
	if len(a.uploads) == 0 {
		return nil
	}
	return a.uploads[a.rand.IntN(len(a.uploads))]
}

// drop removes an upload from the actor's list.
func (a *actor) drop(u *upload) {
	a.uploads = slices.DeleteFunc(a.uploads, func(o *upload) bool { return o == u })
}

// begin begins an upload. It retries after a lost response; the retry must find the same upload.
func (a *actor) begin(ctx context.Context) {
	path := a.somePath()
	if len(a.uploads) >= 3 || slices.ContainsFunc(a.uploads, func(u *upload) bool { return u.path == path }) {
		return
	}
	a.made++
	print := fmt.Sprintf("%s-%d", a.name, a.made)
	content, began := a.content(partSize+a.rand.Int64N(2*partSize)), time.Now()
	r := a.insist(ctx, "begin", request{method: "POST", path: "/uploads", key: "begin-" + print, body: map[string]any{
		"path": path, "size": content.Size, "part_size": partSize, "parents": true, "fingerprint": print, "conflict": "replace",
	}})
	v, err := into[view](r)
	if err != nil {
		if !a.l.broken() {
			a.expect("begin", r, "too-many-open")
		}
		return
	}
	a.l.touch(v.ID, began)
	a.uploads = append(a.uploads, &upload{id: v.ID, path: path, content: content, acked: map[int]bool{}})
}

// sendParts sends some of the missing parts in parallel, each to any instance. Sometimes it breaks
// the connection in the middle.
func (a *actor) sendParts(ctx context.Context) {
	u := a.some()
	if u == nil {
		return
	}
	var sending sync.WaitGroup
	for _, n := range u.missing() {
		torn := a.rand.IntN(12) == 0
		sending.Go(func() {
			if torn {
				a.sendTorn(ctx, u, n)
			}
			a.sendPart(ctx, u, n)
		})
	}
	sending.Wait()
	if u.over {
		a.lookUpload(ctx, u)
	}
}

func (a *actor) partRequest(u *upload, n int) request {
	return request{method: "PUT", path: fmt.Sprintf("/uploads/%s/parts/%d", u.id, n), body: u.content.Bytes(int64(n)*partSize, partSize)}
}

func (a *actor) sendPart(ctx context.Context, u *upload, n int) {
	began := time.Now()
	r := a.ask(ctx, "part", a.partRequest(u, n))
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case r.result() == done:
		a.l.touch(u.id, began)
		u.acked[n] = true
	case r.code == "gone":
		u.over = true
	case r.result() == refused:
		a.expect(fmt.Sprintf("part %d of upload %s", n, u.id), r, "state")
	}
}

// sendTorn breaks the connection in the middle of a part, which must not be stored.
func (a *actor) sendTorn(ctx context.Context, u *upload, n int) {
	q := a.partRequest(u, n)
	whole := q.body.([]byte)
	q.length = int64(len(whole))
	q.body = io.MultiReader(io.LimitReader(u.content.Reader(), q.length/2), broken{})
	if r := a.send(ctx, q); r.err == nil && r.status < 300 {
		a.l.fail("half a part %d of upload %s was accepted: %s", n, u.id, r)
	}
}

// broken is a body that fails.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// complete completes an upload whose parts were all acknowledged.
func (a *actor) complete(ctx context.Context) {
	u := a.some()
	if u == nil || len(u.missing()) > 0 {
		return
	}
	r := a.ask(ctx, "complete", request{method: "POST", path: "/uploads/" + u.id + "/complete", body: map[string]any{"conflict": "replace"}})
	switch r.result() {
	case done:
		a.completed(u)
	case unsure:
		a.settle(ctx, u)
	case refused:
		if r.code == "gone" {
			a.lookUpload(ctx, u)
			return
		}
		a.expect("complete of upload "+u.id, r, "version-changed")
	}
}

// completed records that u is now the file at its path.
func (a *actor) completed(u *upload) {
	a.at(u.path).possible = []*history.Content{&u.content}
	a.drop(u)
}

// settle waits until the outcome of an upload is known.
func (a *actor) settle(ctx context.Context, u *upload) {
	for late := time.Now().Add(patience); ; {
		v := a.lookUpload(ctx, u)
		if v == nil || v.State != "sealing" || a.l.broken() {
			return
		}
		if time.Now().After(late) {
			a.l.fail("upload %s stays in sealing", u.id)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// lookUpload compares the upload in an instance with what was acknowledged. If the upload has
// ended, it is dropped and lookUpload returns nil.
func (a *actor) lookUpload(ctx context.Context, u *upload) *view {
	r := a.insist(ctx, "view", request{method: "GET", path: "/uploads/" + u.id})
	if r.status == http.StatusGone {
		if early := a.l.early(u.id, time.Now().UnixMilli()); early > 0 {
			a.l.fail("upload %s is gone %s too early: %s", u.id, early, r)
		}
		a.drop(u)
		return nil
	}
	v, err := into[view](r)
	if err != nil {
		if !a.l.broken() {
			a.l.fail("look at upload %s: %v", u.id, err)
		}
		return nil
	}
	if v.State == "done" {
		a.completed(u)
		return nil
	}
	for n := range u.acked {
		if !v.has(n) {
			a.l.fail("part %d of upload %s was acknowledged; %s says %s with parts %v", n, u.id, r.from, v.State, v.Received)
		}
	}
	return &v
}

func (a *actor) cancel(ctx context.Context) {
	u := a.some()
	if u == nil {
		return
	}
	r := a.insist(ctx, "cancel", request{method: "DELETE", path: "/uploads/" + u.id})
	if r.result() == refused && r.code != "gone" {
		a.expect("cancel", r)
		return
	}
	a.drop(u)
}

// forget abandons an upload; its bytes must be reclaimed later.
func (a *actor) forget(context.Context) {
	if u := a.some(); u != nil {
		a.drop(u)
	}
}
