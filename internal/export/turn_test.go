package export

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// slowSource serves documents below /slow at a byte per second, and sends the path of each started
// one.
func (w *world) slowSource(t *testing.T) (begun chan string) {
	t.Helper()
	begun = make(chan string, 1000)
	serve := w.serve
	w.serve = func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/slow") {
			serve(rw, r)
			return
		}
		begun <- r.URL.Path
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for _, c := range []byte("%PDF-" + strings.Repeat(" ", 3600)) {
			if _, err := rw.Write([]byte{c}); err != nil {
				return
			}
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
	return begun
}

// createSlow requests a hundred slow documents.
func (w *world) createSlow(t *testing.T, e *Exports, name string) drive.ExportID {
	t.Helper()
	in := Request{Name: name}
	for i := range 100 {
		in.Manifest = append(in.Manifest, Item{URL: w.url(fmt.Sprintf("/slow/%s/%d.pdf", name, i))})
	}
	return w.create(t, e, in).ID
}

// createOne requests one file of a new user.
func (w *world) createOne(t *testing.T, e *Exports) (who drive.Who, id drive.ExportID) {
	t.Helper()
	w.makeUser(t)
	return w.who, w.create(t, e, Request{Nodes: []drive.NodeID{w.put(t, "/a.pdf", "a")}}).ID
}

// waitSealed waits until batches are sealed.
func waitSealed(t *testing.T, e *Exports, whose map[drive.ExportID]drive.Who) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for id, who := range whose {
		for {
			v, err := e.Get(t.Context(), who, id)
			if err != nil {
				t.Fatal(err)
			}
			if v.State == Sealed {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("it is still %s", v.State)
			}
		}
	}
}

// An account with very slow documents has all slots. Others get theirs at once or after a time
// slice.
func TestSlowSourceYieldsSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun := w.slowSource(t)
	e := w.process(w.db, "one")
	e.collector.slowAge = 0
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx) }) // its error is that of its context
	defer running.Wait()
	defer stop()

	hostile := w.who
	both := []drive.ExportID{w.createSlow(t, e, "x"), w.createSlow(t, e, "y")}
	for seen := map[string]bool{}; len(seen) < 2; {
		seen[strings.Split(<-begun, "/")[2]] = true
	}
	b, one := w.createOne(t, e)
	c, two := w.createOne(t, e)
	waitSealed(t, e, map[drive.ExportID]drive.Who{one: b, two: c})

	w.makeUser(t)
	w.createSlow(t, e, "z") // another slow batch: each has one slot
	for strings.Split(<-begun, "/")[2] != "z" {
	}
	d, three := w.createOne(t, e)
	w.advance(turnSlice)
	e.Wake()
	waitSealed(t, e, map[drive.ExportID]drive.Who{three: d})
	for _, id := range both {
		v, err := e.Get(t.Context(), hostile, id)
		if err != nil || v.State != Running && v.State != Pending || v.Error != "" || v.Failed != 0 {
			t.Errorf("what is slow is %s with %d failed: %s, %v", v.State, v.Failed, v.Error, err)
		}
	}
}

// Accounts take turns: an account with one export waits for one export of each other account.
func TestAccountsTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	order := ""
	next := func() drive.AccountID {
		b, err := e.queue.claim(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return drive.AccountID{}
		}
		w.advance(time.Millisecond)
		e.workers.work(t.Context(), b)
		return b.Account
	}
	many := func(n int, priority int64) drive.AccountID {
		w.makeUser(t)
		w.who.Admin = priority > 0
		at := w.put(t, "/a.pdf", "a")
		for range n {
			w.create(t, e, Request{Nodes: []drive.NodeID{at}, Priority: priority})
			w.advance(time.Millisecond)
		}
		return w.who.Account
	}
	names := map[drive.AccountID]string{many(5, 0): "a", many(1, 0): "b", many(2, 0): "c", many(1, -100): "d", many(2, MaxPriority): "u", {}: "."}
	for !strings.HasSuffix(order, ".") {
		order += names[next()]
	}
	if order != "uuabcdacaaa." {
		t.Errorf("the order is %s", order)
	}
	w.advance(keepRows + time.Hour)
	if err := e.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM export_turns"); n != 0 {
		t.Errorf("%d turns are remembered a month later", n)
	}
}

// The second slot of a machine is for an account without a running batch on any machine.
func TestAccountUsesHalfWhileOthersWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.process(w.db, "here"), w.process(w.db, "there")
	claim := func(e *Exports) drive.AccountID {
		b, err := e.queue.claim(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return drive.AccountID{}
		}
		return b.Account
	}
	a := w.who.Account
	at := w.put(t, "/a.pdf", "a")
	for range 4 {
		w.create(t, here, Request{Nodes: []drive.NodeID{at}})
	}
	if first, second := claim(here), claim(here); first != a || second != a {
		t.Fatal("who is alone does not get both places")
	}
	if b := claim(here); !b.IsZero() {
		t.Fatal("a third one was taken")
	}
	who, _ := w.createOne(t, there)
	if err := here.queue.requestTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM exports WHERE yield_at > 0"); n != 1 {
		t.Errorf("%d are asked for", n)
	}
	if got := claim(there); got != who.Account {
		t.Error("who has two places got a third one")
	}
	if err := here.queue.requestTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM exports WHERE yield_at > 0"); n != 1 {
		t.Errorf("%d are asked for when nobody waits", n)
	}
}

func TestHighPriorityNeedsAdmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	in := Request{Nodes: []drive.NodeID{w.put(t, "/a.pdf", "a")}}
	for _, c := range []struct {
		admin    bool
		priority int64
		want     drive.Kind
	}{{false, 1, drive.Forbidden}, {true, MaxPriority + 1, drive.BadRequest}, {true, MaxPriority, 0}, {false, MinPriority, 0}, {false, MinPriority - 1, drive.BadRequest}} {
		who := w.who
		who.Admin, in.Priority = c.admin, c.priority
		_, err := e.Create(t.Context(), who, in, nil)
		if c.want == 0 && err != nil || c.want != 0 && !drive.IsKind(err, c.want) {
			t.Errorf("%d, administrator: %v: %v", c.priority, c.admin, err)
		}
		_, err = e.CreateSchedule(t.Context(), who, Schedule{Folder: w.root, Name: "s", Priority: c.priority})
		if c.want == 0 && err != nil || c.want != 0 && !drive.IsKind(err, c.want) {
			t.Errorf("a schedule of %d, administrator: %v: %v", c.priority, c.admin, err)
		}
	}
}

// Endless documents do not keep their batch from ending: a turn without progress counts as a try,
// and in the last try they fail.
func TestUnproductiveTurnsFailBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun := w.slowSource(t)
	e := w.process(w.db, "one")
	e.collector.slowAge = 0
	v := w.create(t, e, Request{Manifest: []Item{{URL: w.url("/slow/x/1.pdf")}, {URL: w.url("/slow/x/2.pdf")}}})
	turns := 0
	for b := w.claim(t, e); b != nil; b = w.claim(t, e) {
		if turns++; turns > 2*maxTries {
			t.Fatal("it takes turns without end")
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.workers.work(t.Context(), b)
		}()
		select {
		case <-begun:
			<-begun // both
			w.advance(turnSlice)
			ask, _ := e.queue.yieldFuncs.Load(b.ID)
			ask.(func())()
			<-done
		case <-done:
		}
	}
	if v = w.get(t, e, v.ID); v.State != Sealed || v.Failed != 2 || turns <= maxTries {
		t.Errorf("after %d turns it is %s with %d failed", turns, v.State, v.Failed)
	}
	if _, files := w.download(t, e, v.ID); !strings.Contains(files["err.txt"], "timed-out") {
		t.Errorf("err.txt is %q", files["err.txt"])
	}
	w.check(t)
}

// A waiting account asks one machine for a slot, not each full machine.
func TestWaitingAccountAsksOneMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	machines := []*Exports{w.process(w.db, "one"), w.process(w.db, "two"), w.process(w.db, "three")}
	for _, e := range machines {
		w.makeUser(t)
		at := w.put(t, "/a.pdf", "a")
		for range perMachine {
			w.create(t, e, Request{Nodes: []drive.NodeID{at}})
			if w.claim(t, e) == nil {
				t.Fatal("a place is not to be had")
			}
		}
	}
	for waiting := range 3 {
		for _, e := range machines {
			if err := e.queue.requestTurn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.count(t, "SELECT COUNT(*) FROM exports WHERE yield_at > 0"); int(n) != waiting {
			t.Errorf("%d wait, %d places are asked for", waiting, n)
		}
		w.createOne(t, machines[0])
	}
}
