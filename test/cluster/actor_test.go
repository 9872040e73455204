package cluster

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/test/history"
)

// actor is a client with its own folder. It performs one action at a time, but sends parts in
// parallel.
type actor struct {
	*wire
	l       *load
	name    string
	rand    *rand.Rand
	files   map[string]*file // by path
	uploads []*upload
	made    int
}

// item is a node in a response.
type item struct {
	ID      string
	Size    int64
	Digests map[string]string
}

// turn performs one random action.
func (a *actor) turn(ctx context.Context) {
	things := []struct {
		weight int
		do     func(context.Context)
	}{
		{20, a.putFile}, {18, a.begin}, {30, a.sendParts}, {20, a.complete}, {4, a.cancel}, {1, a.forget}, {8, a.deleteFile}, {12, a.readFile},
	}
	total := 0
	for _, thing := range things {
		total += thing.weight
	}
	n := a.rand.IntN(total)
	for _, thing := range things {
		if n -= thing.weight; n < 0 {
			thing.do(ctx)
			return
		}
	}
}

// ask sends a request once and checks that the response is acceptable.
func (a *actor) ask(ctx context.Context, what string, q request) reply {
	r := a.send(ctx, q)
	if r.from == "" { // no instance answers
		<-time.After(50 * time.Millisecond)
	}
	a.l.note(what, r)
	if err := r.unclear(); err != nil {
		a.l.fail("%s %s %s: %v", a.name, q.method, q.path, err)
	}
	return r
}

// insist retries an idempotent request until it gets a definite response.
func (a *actor) insist(ctx context.Context, what string, q request) reply {
	late := time.Now().Add(patience)
	for {
		r := a.ask(ctx, what, q)
		if r.result() != unsure && r.status != http.StatusTooManyRequests || a.l.broken() {
			return r
		}
		if time.Now().After(late) {
			a.l.fail("%s %s %s: not within %s: %s", a.name, q.method, q.path, patience, r)
			return r
		}
		<-time.After(20 * time.Millisecond) // a client's retry delay
	}
}

// expect fails the run if a response is refused with an unexpected problem code.
func (a *actor) expect(what string, r reply, codes ...string) {
	if !slices.Contains(append(codes, "rate", "quota"), r.code) {
		a.l.fail("%s: %s was refused: %s", a.name, what, r)
	}
}

func (a *actor) somePath() string { return fmt.Sprintf("/%s/f%d", a.name, a.rand.IntN(5)) }

// content returns content of about size bytes; some of it is shared between actors.
func (a *actor) content(size int64) history.Content {
	if a.rand.IntN(6) == 0 { // content that others also have, to test deduplication
		seed := 1 + a.rand.Uint64N(3)
		return history.Content{Seed: seed, Size: partSize + int64(seed)*1000}
	}
	return history.Content{Seed: 1000 + a.rand.Uint64N(1<<62), Size: size}
}

// at returns what is known of a path, initially that no file is there.
func (a *actor) at(path string) *file {
	f := a.files[path]
	if f == nil {
		f = &file{possible: []*history.Content{nil}}
		a.files[path] = f
	}
	return f
}

// putFile sends a whole file in one request; some files are larger than a part.
func (a *actor) putFile(ctx context.Context) {
	size := a.rand.Int64N(300_000)
	if a.rand.IntN(8) == 0 {
		size = partSize + a.rand.Int64N(mib)
	}
	content, path := a.content(size), a.somePath()
	f, what := a.at(path), "put"
	if f.possible[0] != nil {
		what = "replace"
	}
	r := a.ask(ctx, what, request{method: "PUT", path: "/files" + path + "?parents=true", body: content.Reader(), length: content.Size})
	switch r.result() {
	case done:
		f.possible = []*history.Content{&content}
	case unsure:
		f.possible = append(f.possible, &content)
		a.awaitSeals(ctx, path)
	case refused:
		a.expect("put", r, "name-taken", "version-changed")
	}
}

// awaitSeals waits until no upload to path is sealing, because a request whose response was lost
// may still be running.
func (a *actor) awaitSeals(ctx context.Context, path string) {
	for late := time.Now().Add(patience); ; {
		list, err := into[struct{ Items []view }](a.insist(ctx, "list", request{method: "GET", path: "/uploads?limit=1000"}))
		if err != nil || a.l.broken() {
			return
		}
		if !slices.ContainsFunc(list.Items, func(v view) bool { return v.State == "sealing" && v.Path == path }) {
			return
		}
		if time.Now().After(late) {
			a.l.fail("%s: an upload to %s stays in sealing", a.name, path)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

// look reads the node at path and fails the run unless its content is one of the possible ones.
func (a *actor) look(ctx context.Context, path string) *item {
	r := a.insist(ctx, "look", request{method: "GET", path: "/nodes?path=" + url.QueryEscape(path)})
	f := a.at(path)
	if r.status == http.StatusNotFound {
		if !slices.Contains(f.possible, nil) {
			a.l.fail("%s is not there; it should be %s", path, f)
		}
		return nil
	}
	n, err := into[item](r)
	if err != nil {
		if !a.l.broken() {
			a.l.fail("look at %s: %v", path, err)
		}
		return nil
	}
	if !slices.ContainsFunc(f.possible, func(c *history.Content) bool {
		return c != nil && c.Size == n.Size && c.Digest() == n.Digests["blake3"]
	}) {
		a.l.fail("%s is %+v; it should be %s", path, n, f)
	}
	return &n
}

func (f *file) String() string {
	var all []string
	for _, c := range f.possible {
		if c == nil {
			all = append(all, "nothing")
		} else {
			all = append(all, fmt.Sprintf("%d bytes of seed %d", c.Size, c.Seed))
		}
	}
	return strings.Join(all, " or ")
}

func (a *actor) deleteFile(ctx context.Context) {
	path := a.somePath()
	n := a.look(ctx, path)
	if n == nil {
		return
	}
	f := a.at(path)
	r := a.ask(ctx, "delete", request{method: "DELETE", path: "/nodes/" + n.ID + "?permanent=true"})
	switch r.result() {
	case done:
		f.possible = []*history.Content{nil}
	case unsure:
		f.possible = append(f.possible, nil)
	case refused:
		a.expect("delete", r, "not-found")
	}
}

// readFile reads a file back and compares every byte.
func (a *actor) readFile(ctx context.Context) {
	path := a.somePath()
	n := a.look(ctx, path)
	if n == nil {
		return
	}
	r := a.ask(ctx, "read", request{method: "GET", path: "/nodes/" + n.ID + "/content"})
	if r.result() != done { // for example a truncated body, because the instance or the store died
		return
	}
	for _, c := range a.at(path).possible {
		if c != nil && c.Size == int64(len(r.body)) && sameBytes(r.body, c.Reader()) {
			return
		}
	}
	a.l.fail("%s has %d bytes that nobody has put there", path, len(r.body))
}

func sameBytes(got []byte, want io.Reader) bool {
	all, err := io.ReadAll(want)
	return err == nil && slices.Equal(got, all)
}
