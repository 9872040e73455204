package cluster

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
)

// crowd is many uploads of one user. Each has two parts and sends the small second one first.
type crowd struct {
	*load
	wire *wire
	user string
	ids  []string
	// sent counts the acknowledged parts.
	sent atomic.Int64
}

// smallPart is the size in bytes of the part that each upload sends.
const smallPart = 1000

func newCrowd(t *testing.T, to *balancer, n *node, size int) *crowd {
	t.Helper()
	u := n.NewUser(t, "crowd", 1<<40)
	c := &crowd{load: newLoad(t, to, n, 1, 0), wire: newWire(to, u.Token), user: "crowd", ids: make([]string, size)}
	return c
}

func (c *crowd) content(i int) history.Content {
	return history.Content{Seed: uint64(100 + i), Size: partSize + smallPart}
}

// each calls do for every upload, 24 at a time.
func (c *crowd) each(do func(a *actor, i int)) {
	var all sync.WaitGroup
	next := atomic.Int64{}
	for range 24 {
		all.Go(func() {
			a := &actor{l: c.load, wire: c.wire, name: c.user, files: map[string]*file{}}
			for i := int(next.Add(1)) - 1; i < len(c.ids) && !c.broken(); i = int(next.Add(1)) - 1 {
				do(a, i)
			}
		})
	}
	all.Wait()
}

// begin begins upload i and sends its small part, with retries until it is acknowledged.
func (c *crowd) begin(a *actor, i int) {
	name := fmt.Sprintf("/u%d", i)
	r := a.insist(context.Background(), "begin", request{method: "POST", path: "/uploads", key: name, body: map[string]any{
		"path": name, "size": partSize + smallPart, "part_size": partSize, "fingerprint": name,
	}})
	v, err := into[view](r)
	if err != nil {
		c.fail("begin: %v", err)
		return
	}
	c.ids[i] = v.ID
	c.part(a, i, 1)
	c.sent.Add(1)
}

// part sends a part, with retries until it is acknowledged.
func (c *crowd) part(a *actor, i, n int) {
	began := time.Now()
	r := a.insist(context.Background(), "part", request{
		method: "PUT", path: fmt.Sprintf("/uploads/%s/parts/%d", c.ids[i], n), body: c.content(i).Bytes(int64(n)*partSize, partSize),
	})
	if r.status != http.StatusNoContent {
		c.fail("part %d of upload %s: %s", n, c.ids[i], r)
	}
	c.touch(c.ids[i], began)
}

// received fails the test unless every upload that is not gone has its acknowledged part.
func (c *crowd) received() {
	c.each(func(a *actor, i int) {
		a.lookUpload(context.Background(), &upload{id: c.ids[i], content: c.content(i), acked: map[int]bool{1: true}})
	})
}

// parked waits until every upload is parked and only the received bytes are charged. On a slow
// machine some uploads may already be abandoned.
func (c *crowd) parked(j *judge, uploads int) {
	j.t.Helper()
	process.Eventually(j.t, patience, "all uploads are parked", func() error {
		var parked, gone, others, held, reserved int64
		err := j.db.QueryRowContext(j.t.Context(), `SELECT (SELECT COUNT(*) FROM uploads WHERE state IN ('parked', 'reclaiming')),
			(SELECT COUNT(*) FROM uploads WHERE state = 'gone'), (SELECT COUNT(*) FROM uploads WHERE state NOT IN ('parked', 'reclaiming', 'gone', 'done')),
			SUM(unfinished), SUM(reserved) FROM ledgers`).Scan(&parked, &gone, &others, &held, &reserved)
		if err == nil && (parked+gone != int64(uploads) || others != 0 || held != parked*smallPart || reserved != 0) {
			err = fmt.Errorf("%d are parked, %d gone, %d neither, %d bytes are held, %d reserved", parked, gone, others, held, reserved)
		}
		return err
	})
}

// TestRedisIsEmptied: all data in Redis is deleted during many uploads, and again when they are
// idle. All acknowledged parts remain, and all timers are armed again: each upload is parked, and
// abandoned in time but not early. No balance is ever wrong.
func TestRedisIsEmptied(t *testing.T) {
	depth.Deep(t)
	uploads := number(t, "SMARTDRIVE_CLUSTER_UPLOADS", 1000)
	until := time.Minute + time.Duration(uploads)*20*time.Millisecond // long enough to receive all uploads before the first one is abandoned, except on a slow machine
	c := rig.New(t, rig.Options{NoKafka: true})
	flags := []string{"--upload-idle", "3s", "--upload-abandon", until.String(), "--upload-max-open", "5000", "--log-level", "warn"}
	a, b := startNode(t, c, "a", "", flags...), startNode(t, c, "b", "", flags...)
	to := &balancer{}
	to.add(a)
	to.add(b)
	j, db := newJudge(t, c), redisClient(t, c)
	w := newCrowd(t, to, a, uploads)
	w.abandon = until
	began := time.Now()
	var working sync.WaitGroup
	working.Go(func() { w.each(w.begin) })
	for i := range 3 { // at three moments during the uploads
		process.Eventually(t, 2*patience, "uploads come in", func() error {
			if n := w.sent.Load(); int(n) < uploads*(2*i+1)/6 && !w.broken() {
				return fmt.Errorf("%d have", n)
			}
			return nil
		})
		if err := db.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	working.Wait()
	t.Logf("%d uploads with a part each in %s, Redis was emptied 3 times", uploads, time.Since(began).Round(time.Second))
	finish(t, w) // immediately, before they are abandoned
	w.received()
	w.parked(j, uploads-finished)
	if err := db.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	flushed := time.Now()
	w.received()
	j.sums()
	j.quiet(until + patience)
	t.Logf("all given up %s after Redis was emptied for the last time", time.Since(flushed).Round(time.Second))
	j.neverEarly(w.load)
	t.Log(w.load)
	j.judge(a, b)
}

// finished is how many uploads of a crowd are completed.
const finished = 3

// finish completes the last uploads of a crowd and checks their files.
func finish(t *testing.T, w *crowd) {
	t.Helper()
	one := &actor{l: w.load, wire: w.wire, name: w.user, files: map[string]*file{}}
	for n := range finished {
		i := len(w.ids) - 1 - n // begun last, so abandoned last
		w.part(one, i, 0)
		u := &upload{id: w.ids[i], path: fmt.Sprintf("/u%d", i), content: w.content(i), acked: map[int]bool{0: true, 1: true}}
		r := one.insist(t.Context(), "complete", request{method: "POST", path: "/uploads/" + u.id + "/complete", body: map[string]any{}})
		if r.result() != done {
			t.Fatalf("complete: %s", r)
		}
		one.completed(u)
		one.look(t.Context(), u.path)
	}
}
