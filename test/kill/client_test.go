package kill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/test/history"
)

// client is a user who works in a folder of their own, and the state that the user expects there.
type client struct {
	*wire
	l     *loop
	user  *user
	name  string
	rand  *rand.Rand
	log   *history.Log
	op    int64
	count map[string]int

	files   map[string]*file // by path
	trash   []*file
	uploads []*upload

	digests *digests
}

// file is a file that must exist.
type file struct {
	node, path string
	contents   []history.Content // its versions, oldest first
}

func (f *file) last() history.Content { return f.contents[len(f.contents)-1] }

// node holds the fields of a node that the client reads.
type node struct {
	ID        string            `json:"id"`
	Path      string            `json:"path"`
	Size      int64             `json:"size"`
	Digests   map[string]string `json:"digests"`
	TrashedAt *string           `json:"trashed_at"`
}

func newClient(l *loop, u *user, i int) *client {
	l.t.Helper()
	c := &client{
		wire: newWire(l.gate, u.token), l: l, user: u, name: fmt.Sprintf("c%d", i), rand: rand.New(rand.NewPCG(uint64(l.seed), uint64(i+1))),
		count: map[string]int{}, files: map[string]*file{}, digests: &digests{known: map[history.Content]string{}},
	}
	log, err := history.Create(filepath.Join(l.dir, c.name+".log"))
	if err != nil {
		l.t.Fatal(err)
	}
	c.log = log
	return c
}

// digests remembers what contents hash to.
type digests struct {
	mu    sync.Mutex
	known map[history.Content]string
}

func (d *digests) of(c history.Content) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum, ok := d.known[c]
	if !ok {
		sum = c.Digest()
		d.known[c] = sum
	}
	return sum
}

// run does one thing after the other until ctx ends. ctx ends only while the client pauses.
func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil && !c.l.t.Failed() {
		c.l.turns.RLock()
		if ctx.Err() == nil {
			c.turn(ctx)
		}
		c.l.turns.RUnlock()
	}
}

// turn runs one random operation to its end and resolves an unknown outcome.
func (c *client) turn(ctx context.Context) {
	things := []struct {
		weight int
		do     func(context.Context)
	}{
		{22, c.putFile},
		{12, c.putBatch},
		{4, c.putTorn},
		{14, c.beginUpload},
		{34, c.sendParts},
		{5, c.fillByOffset},
		{3, c.dropPart},
		{18, c.completeUpload},
		{4, c.cancelUpload},
		{1, c.forgetUpload},
		{6, c.moveFile},
		{5, c.trashFile},
		{7, c.deleteFile},
		{4, c.restoreFile},
		{6, c.purgeFile},
		{12, c.readFile},
	}
	total := 0
	for _, thing := range things {
		total += thing.weight
	}
	n := c.rand.IntN(total)
	for _, thing := range things {
		if n -= thing.weight; n < 0 {
			thing.do(ctx)
			return
		}
	}
}

func (c *client) fail(format string, args ...any) { c.l.fail(c, format, args...) }

// intent logs a request before it is sent.
func (c *client) intent(r history.Record) history.Record {
	c.op++
	r.User, r.Client, r.Op, r.Phase = c.user.name, c.name, c.op, history.Intent
	c.log.Write(r)
	return r
}

// outcome logs the reply to a request and returns what it proves.
func (c *client) outcome(intent history.Record, r reply, node string) result {
	res := r.result()
	o := history.Record{
		User: c.user.name, Client: c.name, Op: intent.Op, Phase: map[result]history.Phase{done: history.Done, refused: history.Refused, unsure: history.Unsure}[res],
		Do: intent.Do, Upload: intent.Upload, Node: node, Status: r.status, Code: r.code,
	}
	if r.err != nil {
		o.Error = r.err.Error()
	}
	c.log.Write(o)
	c.counted(string(intent.Do), res, r)
	return res
}

func (c *client) counted(what string, res result, r reply) {
	c.count[what+map[result]string{done: "", refused: " refused", unsure: " unsure"}[res]]++
	switch {
	case r.err == nil && (r.status == 500 || r.status >= 400 && r.code == ""):
		c.fail("%s was answered with %s", what, r)
	case errors.Is(r.err, context.DeadlineExceeded):
		c.fail("%s was not answered within %s", what, patience)
	}
}

// somePath returns one of the few paths that the client works with: they meet again and again.
func (c *client) somePath() string {
	folder := []string{"/" + c.name, "/" + c.name + "/deep"}[c.rand.IntN(2)]
	return fmt.Sprintf("%s/f%d", folder, c.rand.IntN(4))
}

// freePath returns a path in the folder of like at which nothing is, or "".
func (c *client) freePath(like string) string {
	for i := range 8 {
		if path := fmt.Sprintf("%s/f%d", folderOf(like), i); c.files[path] == nil {
			return path
		}
	}
	return ""
}

func (c *client) someFile() *file {
	if len(c.files) == 0 {
		return nil
	}
	return c.files[slices.Sorted(maps.Keys(c.files))[c.rand.IntN(len(c.files))]]
}

// content returns content to upload. Clients share some contents, so that they can be deduplicated
// and claimed.
func (c *client) content(size int64) history.Content {
	if size >= mib && c.rand.IntN(3) == 0 {
		seed := 1 + c.rand.Uint64N(6)
		return history.Content{Seed: seed, Size: mib + int64(seed)*300_000}
	}
	return history.Content{Seed: 1000 + c.rand.Uint64N(1<<62), Size: size}
}

// appeared records that path has a file with this content as its newest version.
func (c *client) appeared(path, node string, content history.Content) {
	f := c.files[path]
	if f == nil {
		f = &file{path: path, node: node}
		c.files[path] = f
	}
	if f.node != node {
		c.fail("the file at %s was node %s and is %s", path, f.node, node)
	}
	f.contents = append(f.contents, content)
}

// look requests the node at path until the server replies, and logs the reply. It returns nil if
// there is no node.
func (c *client) look(ctx context.Context, path string) *node {
	n, r := c.ask(ctx, "/nodes?path="+url.QueryEscape(path))
	seen := history.Record{User: c.user.name, Client: c.name, Phase: history.Seen, Do: history.LookPath, Path: path, Status: r.status}
	if n != nil {
		seen.Node, seen.Digest = n.ID, n.Digests["blake3"]
	}
	c.log.Write(seen)
	return n
}

// lookNode requests a node by its id.
func (c *client) lookNode(ctx context.Context, id string) *node {
	n, r := c.ask(ctx, "/nodes/"+id)
	seen := history.Record{User: c.user.name, Client: c.name, Phase: history.Seen, Do: history.LookNode, Node: id, Status: r.status, State: "none"}
	if n != nil {
		seen.State, seen.Trashed = "there", n.TrashedAt != nil
	}
	c.log.Write(seen)
	return n
}

func (c *client) ask(ctx context.Context, path string) (*node, reply) {
	r := c.insist(ctx, request{method: "GET", path: path})
	if r.status == 404 {
		return nil, r
	}
	n, err := into[node](r)
	if err != nil {
		c.fail("GET %s: %v", path, err)
		return nil, r
	}
	return &n, r
}

// insist repeats a request that changes nothing until it is answered.
func (c *client) insist(ctx context.Context, q request) reply {
	for {
		r := c.send(ctx, q)
		answered := r.err == nil && r.status < 500 && r.status != 429
		if answered || ctx.Err() != nil || c.l.t.Failed() {
			return r
		}
		if r.status == 500 {
			c.fail("%s %s was answered with %s", q.method, q.path, r)
		}
	}
}

// settle finds out whether an unsure file appeared at path. A seal that the server redoes after its
// start must have ended before.
func (c *client) settle(ctx context.Context, path string, content history.Content) {
	c.awaitSeals(ctx, path)
	n := c.look(ctx, path)
	before := c.files[path]
	switch {
	case n == nil && before == nil, ctx.Err() != nil:
	case n == nil:
		c.fail("%s is not there any more", path)
	case n.Digests["blake3"] == c.digests.of(content) && (before == nil || c.countVersions(ctx, n.ID) > len(before.contents)):
		c.appeared(path, n.ID, content)
	case before == nil || n.ID != before.node || n.Digests["blake3"] != c.digests.of(before.last()):
		c.fail("%s is not what was put there: %+v", path, n)
	}
}

// countVersions returns the number of versions of a file. If an upload had the content that was
// there before, only this number shows whether it took effect.
func (c *client) countVersions(ctx context.Context, node string) int {
	list, err := into[struct{ Items []json.RawMessage }](c.insist(ctx, request{method: "GET", path: "/nodes/" + node + "/versions?limit=1000"}))
	if err != nil {
		c.fail("list the versions of node %s: %v", node, err)
	}
	return len(list.Items)
}

// awaitSeals waits until no upload to path is being sealed.
func (c *client) awaitSeals(ctx context.Context, path string) {
	c.until(ctx, "uploads to "+path+" are sealed", func() bool {
		list, err := into[struct{ Items []view }](c.insist(ctx, request{method: "GET", path: "/uploads?limit=1000"}))
		if err != nil && ctx.Err() == nil {
			c.fail("list uploads: %v", err)
		}
		return !slices.ContainsFunc(list.Items, func(v view) bool { return v.State == "sealing" && v.Path == path })
	})
}

// until polls until so returns true. Work that the server does by itself after a start may take as
// long as a request.
func (c *client) until(ctx context.Context, what string, so func() bool) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for ctx.Err() == nil && !c.l.t.Failed() && !so() {
		select {
		case <-again.C:
		case <-late.C:
			c.fail("not within %s: %s", patience, what)
		}
	}
}
