package contents

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/move/migrate"
)

type site struct {
	t     *testing.T
	db    *sqldb.DB
	pair  *Pair
	state migrate.State
	*Copier
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, db: sqldbtest.Open(t), state: migrate.State{ID: "m", Phase: migrate.Fill, Term: 1, Contents: "there"}}
	err := s.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // as package migrate writes it
		_, err := tx.Exec(ctx, `INSERT INTO migration_side (id, migration, role, epoch, term, phase, percent, careful, paused, here, peer, contents, marker,
			changed_at, begun_at) VALUES (1, 'm', 1, 1, 1, 1, 0, 0, 0, 'here', '', 'there', '', 0, 0)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.pair = NewPair(s.directory("here"))
	s.pair.Attach(s.directory("there"))
	s.Copier = s.again()
	return s
}

// again returns the copier of a restarted process.
func (s *site) again() *Copier {
	return NewCopier(Options{
		DB: s.db, Pair: s.pair, State: func() migrate.State { return s.state }, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC) },
	})
}

func (s *site) directory(name string) Side {
	s.t.Helper()
	d, err := local.Open(s.t.Context(), local.Options{Dir: s.t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = d.Close() })
	return Side{Name: name, Store: d.Blobs, Staging: d.Staging, Quarantine: d.Quarantine}
}

// put stores a content and inserts its row, like a whole-file upload.
func (s *site) put(seed uint64) (file string) {
	s.t.Helper()
	b, file := blobtest.Bytes(seed, 1000), blobtest.PutName()
	if _, err := s.pair.Blobs.Put(s.t.Context(), file, blobtest.BodyOf(0, len(b), bytes.NewReader(b))); err != nil {
		s.t.Fatal(err)
	}
	err := s.db.Write(s.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, _, err := content.Content{}.Attach(ctx, tx, content.NewContent{
			ID: drive.NewID[drive.BlobID](), File: file, Sum: blake3.Sum256(b), Size: 1000, PartSize: drive.MiB, Parts: []byte{},
		})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return file
}

func (s *site) run() {
	s.t.Helper()
	for busy := true; busy; {
		var err error
		if busy, err = s.runOnce(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) wantAt(w SideIndex, file string, want bool) {
	s.t.Helper()
	if _, err := s.pair.Side(w).Store.Stat(s.t.Context(), file); (err == nil) != want {
		s.t.Errorf("%s at side %d: %v", file, w, err)
	}
}

func (s *site) wantGate(to migrate.Phase, want bool) {
	s.t.Helper()
	gates, err := s.Gate(s.t.Context(), to)
	open := len(gates) > 0
	for _, g := range gates {
		open = open && g.OK
	}
	if err != nil || open != want {
		s.t.Errorf("the gate of phase %v is %v, %v: %+v", to, open, err, gates)
	}
}

// lead switches the leader, on a primary with the same triggers.
func (s *site) lead(w SideIndex) {
	s.state.Term++
	s.state.Switched = w == Second
	s.state.Phase = map[SideIndex]migrate.Phase{First: migrate.ReadNew, Second: migrate.WriteNew}[w]
	s.pair.SetLeader(w)
}

func (s *site) wantGateBack(want bool) {
	s.t.Helper()
	gates, err := s.GateBack(s.t.Context())
	open := true
	for _, g := range gates {
		open = open && g.OK
	}
	if err != nil || open != want {
		s.t.Errorf("the gate back is %v, %v: %+v", open, err, gates)
	}
}

func TestExistingAndNewContentsAreCopied(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var before []string
	for i := range uint64(pageSize + 20) { // more than a page
		before = append(before, s.put(i))
	}
	if _, err := s.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantGate(migrate.DualWrite, false)
	s.Copier = s.again() // the process crashes in the middle
	s.run()
	s.wantGate(migrate.DualWrite, true)
	after := s.put(10_000)
	if n, err := s.Queued(t.Context()); n != 1 || err != nil {
		t.Errorf("%d wait, %v: the row was not captured", n, err)
	}
	s.run()
	for _, file := range append(before, after) {
		s.wantAt(Second, file, true)
	}
	if n, err := s.Queued(t.Context()); n != 0 || err != nil {
		t.Errorf("%d wait, %v", n, err)
	}
}

// Rows inserted during a sweep are queued, so the sweep ends for any number of new rows.
func TestSweepEndsDespiteNewContents(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*site) error{
		"the first one": func(*site) error { return nil },
		"asked for":     func(s *site) error { return s.Verify(t.Context(), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			seed := uint64(0)
			come := func() (last string) {
				for range pageSize {
					last, seed = s.put(seed), seed+1
				}
				return last
			}
			come()
			s.run()
			come()
			if name == "the first one" {
				s.lead(Second)
			}
			if err := begin(s); err != nil {
				t.Fatal(err)
			}
			var last string
			busy := true
			for round := 0; busy; round++ {
				if round > 5 {
					t.Fatal("two pages are not looked through because others come")
				}
				var err error
				if busy, err = s.runOnce(t.Context()); err != nil {
					t.Fatal(err)
				}
				last = come()
			}
			s.wantGate(migrate.DualWrite, true)
			s.run()
			s.wantAt(Second, last, true)
			s.wantAt(First, last, true)
		})
	}
}

// Phase 5 requires that the new side has all contents, verified in that direction.
func TestGateRequiresAllContentsOnNewSide(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.put(1)
	s.run()
	s.lead(Second)
	s.wantGate(migrate.NewOnly, false) // no sweep since the switch
	s.run()
	s.wantGate(migrate.NewOnly, true)

	s.pair.SetLeader(First) // a Put that began before the switch and ends after it
	late := s.put(2)
	s.pair.SetLeader(Second)
	s.wantGate(migrate.NewOnly, false)
	s.run()
	s.wantAt(Second, late, true)
	s.wantGate(migrate.NewOnly, true)
}

// A comparison may be requested before the first page, also on the way back: later contents are
// captured, and bytes are compared.
func TestVerifyBeforeFirstSweep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := s.put(1)
	for i, switched := range []bool{false, true} {
		if switched {
			s.lead(Second)
		}
		if err := s.Verify(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		s.wantGate(migrate.DualWrite, false)
		s.run()
		s.wantGate(migrate.DualWrite, true)
		if at, err := s.loadSweep(t.Context()); err != nil || at.Deep != 100 {
			t.Errorf("%d %% of the bytes are compared, %v", at.Deep, err)
		}
		after := s.put(uint64(i) + 2)
		if n, err := s.Queued(t.Context()); n != 1 || err != nil {
			t.Errorf("%d wait, %v: the row was not captured", n, err)
		}
		s.run()
		s.wantAt(Second, after, true)
		s.wantAt(Second, file, true)
		if err := s.StopCapture(t.Context()); err != nil { // as on the new primary after a switch: no triggers yet
			t.Fatal(err)
		}
	}
}

// A comparison requested during a page of the sweep starts over with the first content.
func TestVerifyDuringSweep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range uint64(pageSize + 20) {
		s.put(i)
	}
	for _, when := range []string{"in the first page", "in a later one"} {
		at, err := s.openSweep(t.Context(), s.state)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		if _, err := s.sweepPage(t.Context(), at); !errors.Is(err, errSweepReplaced) {
			t.Errorf("%s: %v", when, err)
		}
		if now, err := s.loadSweep(t.Context()); err != nil || now.Deep != 100 || now.Done != 0 || !now.Armed {
			t.Errorf("%s: %+v, %v", when, now, err)
		}
		if _, err := s.runOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.run()
	if now, err := s.loadSweep(t.Context()); err != nil || now.Deep != 100 || now.Ended == 0 || now.Done != pageSize+20 {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestWrongBytesCloseTheGate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := s.put(1)
	s.run()
	s.wantGate(migrate.DualWrite, true)
	if err := s.pair.Blobs.Remove(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.wantGate(migrate.DualWrite, false)
}

func TestDisarmLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.put(1)
	s.run()
	if err := s.StopCapture(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.put(2)
	if n, err := s.Queued(t.Context()); n != 0 || err != nil {
		t.Errorf("%d wait, %v", n, err)
	}
}

// In phase 5 a process with the old settings changes nothing at the old place, and nothing is
// queued.
func TestNoWritesAfterLeave(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before := s.put(1)
	s.run()
	s.lead(Second)
	s.run()
	late := s.put(2) // queued when phase 5 is entered
	s.state.Phase = migrate.NewOnly
	s.pair.DropFirst()
	after := s.put(3)
	if err := s.pair.Blobs.Remove(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.run()
		s.Copier = s.again()
	}
	s.wantAt(First, before, true)
	s.wantAt(Second, before, false)
	for _, file := range []string{late, after, s.put(4)} {
		s.wantAt(First, file, false)
		s.wantAt(Second, file, true)
	}
	if n, err := s.Queued(t.Context()); n != 0 || err != nil {
		t.Errorf("%d wait, %v", n, err)
	}
	if p, err := s.Progress(t.Context()); err != nil || p.Done != 1 {
		t.Errorf("%+v, %v: what was known is gone", p, err)
	}
}

// Contents stored while the new side led may exist only there. Rolling back requires a sweep that
// began after the old side led again.
func TestRollbackRequiresContentsOnOldSide(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(s *site){
		"the copier was busy all the time": func(*site) {},
		"the triggers were made":           func(s *site) { s.run() },
		"it was stored before the triggers": func(s *site) {
			if err := s.StopCapture(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		},
		"the triggers were made after it": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.wantGateBack(true) // it has just begun
			s.put(1)
			s.run()
			s.wantGateBack(true)
			s.lead(Second)
			if meanwhile != nil {
				meanwhile(s)
			}
			alone := s.put(2)
			if meanwhile == nil {
				if err := s.createTriggers(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.wantGateBack(false)
			s.lead(First)
			s.wantGateBack(false) // nothing was copied since the switch
			s.state.Paused = true
			if _, err := s.openSweep(t.Context(), s.state); err != nil { // the sweep has begun and stops there
				t.Fatal(err)
			}
			s.wantGateBack(false)
			s.state.Phase, s.state.Paused = migrate.Fill, false
			s.wantGateBack(false)
			s.Copier = s.again()
			s.run()
			s.wantAt(First, alone, true)
			s.wantGateBack(true)
		})
	}
}

// An instance that has not opened the new place cannot know its contents.
func TestRollbackRequiresBothPlaces(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run()
	s.lead(Second)
	s.run()
	s.lead(First)
	s.run()
	s.wantGateBack(true)
	s.state.Phase = migrate.Fill
	there := s.pair.Side(Second)
	s.pair.Detach()
	s.wantGateBack(false)
	s.pair.Attach(*there)
	s.wantGateBack(true)
	s.state.Phase = migrate.Freeze // the rollback has begun
	s.pair.Detach()
	s.wantGateBack(true)
}
