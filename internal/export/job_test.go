package export

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance/lease"
	"smartdrive/internal/testkit/depth"
)

// shelf is a drive that keeps uploads in memory, beside the processes that write to it.
type shelf struct {
	mu      sync.Mutex
	uploads map[drive.UploadID]*shelved
	puts    map[string]int // how often each part came
}

type shelved struct {
	file  DriveFile
	parts map[int][]byte
	node  drive.NodeID
}

const shelfPart = 64 // bytes

// Begin implements Drive.
func (s *shelf) Begin(_ context.Context, _ drive.Who, f DriveFile) (drive.UploadID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range s.uploads {
		if u.file == f && u.node.IsZero() {
			return id, nil
		}
	}
	id := drive.NewID[drive.UploadID]()
	s.uploads[id] = &shelved{file: f, parts: map[int][]byte{}}
	return id, nil
}

// Look implements Drive.
func (s *shelf) Look(_ context.Context, _ drive.Who, id drive.UploadID) (Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uploads[id]
	if u == nil {
		return Upload{}, drive.Fail(drive.Gone)
	}
	return Upload{PartSize: shelfPart, Done: !u.node.IsZero(), Node: u.node, Has: func(n int) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return u.parts[n] != nil
	}}, nil
}

// Put implements Drive.
func (s *shelf) Put(_ context.Context, _ drive.Who, id drive.UploadID, n int, size drive.ByteSize, body io.Reader) error {
	raw, err := io.ReadAll(body)
	if err != nil || drive.ByteSize(len(raw)) != size {
		return fmt.Errorf("%d bytes of %d: %w", len(raw), size, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uploads[id] == nil {
		return drive.Fail(drive.Gone)
	}
	s.uploads[id].parts[n] = raw
	s.puts[fmt.Sprint(id, n)]++
	return nil
}

// Cancel implements Drive.
func (s *shelf) Cancel(_ context.Context, _ drive.Who, id drive.UploadID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uploads, id)
	return nil
}

// Complete implements Drive.
func (s *shelf) Complete(_ context.Context, _ drive.Who, id drive.UploadID) (drive.NodeID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uploads[id]
	if u.node.IsZero() {
		u.node = drive.NewID[drive.NodeID]()
	}
	return u.node, nil
}

// whole is the file that was made, if exactly one was.
func (s *shelf) whole(t *testing.T) (raw []byte) {
	t.Helper()
	if len(s.uploads) != 1 {
		t.Errorf("there are %d uploads", len(s.uploads))
	}
	for _, u := range s.uploads {
		if u.node.IsZero() {
			t.Error("it was not completed")
		}
		for n := range len(u.parts) {
			raw = append(raw, u.parts[n]...)
		}
	}
	return raw
}

// A zip is written into the drive once, with each part sent once, whichever call of the database
// its worker is killed at.
func TestAJobMayBeKilledAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	v := w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	want, _ := w.download(t, e, v.ID)
	for at := int64(1); ; at += int64(depth.Pick(30, 10, 3)) {
		s := &shelf{uploads: map[drive.UploadID]*shelved{}, puts: map[string]int{}}
		with := func(o *Options) { o.Drive = s }
		maker := w.process(w.db, "maker", with)
		if _, err := maker.Materialise(t.Context(), w.who, v.ID, w.root, ""); err != nil {
			t.Fatal(err)
		}
		died := w.dies(t, at, func(dead *Exports) { doJob(t, dead) }, with)
		w.pass(lease.Length + time.Second)
		heir := w.process(w.db, "heir", with)
		if err := heir.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.whole(t); !bytes.Equal(got, want) {
			t.Fatalf("killed at call %d: %d bytes were written, of %d", at, len(got), len(want))
		}
		for part, n := range s.puts {
			if n != 1 {
				t.Errorf("killed at call %d: part %s was sent %d times", at, part, n)
			}
		}
		if n := w.count(t, "SELECT COUNT(*) FROM export_jobs WHERE state <> 'done'"); n != 0 {
			t.Fatalf("killed at call %d: %d jobs are not done", at, n)
		}
		if !died {
			return
		}
	}
}

// doJob does the first job that is due, if there is one.
func doJob(t testing.TB, e *Exports) {
	t.Helper()
	if j, err := e.jobs.claim(t.Context()); err == nil && j != nil {
		e.jobs.work(t.Context(), j)
	}
}

// An account cannot fill the queue that all share.
func TestJobsOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a", func(o *Options) { o.Drive = &shelf{} })
	v := w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	var err error
	for n := 0; err == nil; n++ {
		if _, err = e.Materialise(t.Context(), w.who, v.ID, w.root, ""); err == nil && n == maxJobs || err != nil && n < maxJobs {
			t.Fatalf("after %d: %v", n, err)
		}
	}
	if !drive.IsKind(err, drive.TooManyOpen) {
		t.Fatal(err)
	}
	w.write(t, exec("UPDATE export_jobs SET state = 'done' WHERE id = (SELECT MIN(id) FROM export_jobs)"))
	if _, err := e.Materialise(t.Context(), w.who, v.ID, w.root, ""); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// Jobs take no turns, so they leave one place of a machine to the batches that do.
func TestJobsLeaveAPlaceToBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a", func(o *Options) { o.Drive = &shelf{} })
	in := w.manifest(t, "in")
	v := w.create(t, e, in)
	w.finish(t, e)
	for range 2 {
		if _, err := e.Materialise(t.Context(), w.who, v.ID, w.root, ""); err != nil {
			t.Fatal(err)
		}
	}
	if j, err := e.jobs.claim(t.Context()); err != nil || j == nil {
		t.Fatalf("the first job does not begin: %v", err)
	}
	if j, err := e.jobs.claim(t.Context()); err != nil || j != nil {
		t.Errorf("the second job begins, too: %v, %v", j, err)
	}
	if b, err := e.queue.claim(t.Context()); err != nil || b != nil {
		t.Fatalf("nothing is asked for, and %v was claimed, %v", b, err)
	}
	w.create(t, e, in)
	if b, err := e.queue.claim(t.Context()); err != nil || b == nil {
		t.Errorf("a batch beside a job does not begin: %v", err)
	}
}

// What cannot be read as it was sealed ends a job at once: were it healed before the next try, the
// parts that were sent would stay.
func TestADamagedEntryEndsAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &shelf{uploads: map[drive.UploadID]*shelved{}, puts: map[string]int{}}
	e := w.process(w.db, "a", func(o *Options) { o.Drive = s })
	v := w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	var file string
	err := w.db.QueryRow(t.Context(), "SELECT b.file FROM blobs b JOIN export_pins p ON p.blob_id = b.id WHERE p.export_id = ? ORDER BY p.n LIMIT 1", v.ID).Scan(&file)
	if err == nil {
		err = w.store.Remove(t.Context(), file)
	}
	if err == nil {
		_, err = e.Materialise(t.Context(), w.who, v.ID, w.root, "")
	}
	if err == nil {
		err = e.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM export_jobs WHERE state = 'failed' AND error = 'not-found' AND tries = 1"); n != 1 {
		t.Error("the job was not ended")
	}
	if got := w.get(t, e, v.ID); got.Error != "damaged" {
		t.Errorf("the batch says %q", got.Error)
	}
	if len(s.uploads) != 0 {
		t.Error("what it had written is left, and reserved")
	}
}

// Giving back is done whole, whichever call its process is killed at.
func TestAReleaseMayBeKilledAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	for at := int64(1); ; at += int64(depth.Pick(10, 3, 1)) {
		v := w.create(t, e, w.manifest(t, fmt.Sprintf("in%d", at)))
		w.finish(t, e)
		died := w.dies(t, at, func(dead *Exports) { _ = dead.Cancel(t.Context(), w.who, v.ID) })
		w.check(t)
		if err := e.Cancel(t.Context(), w.who, v.ID); err != nil {
			t.Fatal(err)
		}
		w.check(t)
		if n := w.count(t, "SELECT COUNT(*) FROM export_pins"); n != 0 {
			t.Fatalf("killed at call %d: %d references are left", at, n)
		}
		if !died {
			return
		}
	}
}
