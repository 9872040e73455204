package export

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/testkit/depth"
)

// memoryDrive is a DriveUploads in memory, shared by all processes.
type memoryDrive struct {
	mu      sync.Mutex
	uploads map[drive.UploadID]*memoryUpload
	puts    map[string]int // number of Puts per part
}

type memoryUpload struct {
	file  DriveFile
	parts map[int][]byte
	node  drive.NodeID
}

const shelfPart = 64 // bytes

// Begin implements DriveUploads.
func (s *memoryDrive) Begin(_ context.Context, _ drive.Who, f DriveFile) (drive.UploadID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range s.uploads {
		if u.file == f && u.node.IsZero() {
			return id, nil
		}
	}
	id := drive.NewID[drive.UploadID]()
	s.uploads[id] = &memoryUpload{file: f, parts: map[int][]byte{}}
	return id, nil
}

// State implements DriveUploads.
func (s *memoryDrive) State(_ context.Context, _ drive.Who, id drive.UploadID) (Upload, error) {
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

// Put implements DriveUploads.
func (s *memoryDrive) Put(_ context.Context, _ drive.Who, id drive.UploadID, n int, size drive.ByteSize, body io.Reader) error {
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

// Cancel implements DriveUploads.
func (s *memoryDrive) Cancel(_ context.Context, _ drive.Who, id drive.UploadID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uploads, id)
	return nil
}

// Complete implements DriveUploads.
func (s *memoryDrive) Complete(_ context.Context, _ drive.Who, id drive.UploadID) (drive.NodeID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uploads[id]
	if u.node.IsZero() {
		u.node = drive.NewID[drive.NodeID]()
	}
	return u.node, nil
}

// assembled returns the only completed file.
func (s *memoryDrive) assembled(t *testing.T) (raw []byte) {
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

// The zip is written once and each part is sent once, wherever the worker crashes.
func TestJobSurvivesCrashAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	v := w.create(t, e, w.manifest(t, "in"))
	w.finish(t, e)
	want, _ := w.download(t, e, v.ID)
	for at := int64(1); ; at += int64(depth.Pick(30, 10, 3)) {
		s := &memoryDrive{uploads: map[drive.UploadID]*memoryUpload{}, puts: map[string]int{}}
		with := func(o *Options) { o.Drive = s }
		maker := w.process(w.db, "maker", with)
		if _, err := maker.Materialise(t.Context(), w.who, v.ID, w.root, ""); err != nil {
			t.Fatal(err)
		}
		died := w.crashesAt(t, at, func(dead *Exports) { doJob(t, dead) }, with)
		w.advance(lease.TTL + time.Second)
		heir := w.process(w.db, "heir", with)
		if err := heir.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.assembled(t); !bytes.Equal(got, want) {
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

// doJob runs the first due job, if there is one.
func doJob(t testing.TB, e *Exports) {
	t.Helper()
	if j, err := e.jobs.claim(t.Context()); err == nil && j != nil {
		e.jobs.work(t.Context(), j)
	}
}

// An account cannot fill the shared job queue.
func TestJobsOfAnAccountAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a", func(o *Options) { o.Drive = &memoryDrive{} })
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

// Jobs have no turns, so they leave one slot of a machine to batches.
func TestJobsLeaveSlotForBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a", func(o *Options) { o.Drive = &memoryDrive{} })
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

// Damaged bytes fail a job at once: after a repair, the parts already sent would stay wrong.
func TestDamagedEntryFailsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &memoryDrive{uploads: map[drive.UploadID]*memoryUpload{}, puts: map[string]int{}}
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

// A release is completed wherever its process crashes.
func TestReleaseSurvivesCrashAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	for at := int64(1); ; at += int64(depth.Pick(10, 3, 1)) {
		v := w.create(t, e, w.manifest(t, fmt.Sprintf("in%d", at)))
		w.finish(t, e)
		died := w.crashesAt(t, at, func(dead *Exports) { _ = dead.Cancel(t.Context(), w.who, v.ID) })
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
