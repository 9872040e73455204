package export

import (
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
)

// A panic fails the try, not the process, which would claim the same batch and crash again. Without
// the panic the batch is sealed.
func TestPanicFailsTry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var broken atomic.Bool
	e := w.process(w.db, "here", func(o *Options) {
		hosts := o.Fetch.Hosts
		o.Fetch.Hosts = func() []string {
			if broken.Load() {
				panic("a defect")
			}
			return hosts()
		}
	})
	v := w.create(t, e, w.manifest(t, "in"))
	broken.Store(true)
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Aborted || got.Error != "internal" {
		t.Fatalf("it is %s: %s", got.State, got.Error)
	}
	broken.Store(false)
	w.advance(time.Hour)
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Sealed {
		t.Errorf("in the end it is %s: %s", got.State, got.Error)
	}
}

// A batch or job that crashes its process repeatedly without progress (killed for its memory, say)
// fails for good. With progress it continues.
func TestCrashingWorkFailsForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "here", func(o *Options) {
		o.Drive = &memoryDrive{uploads: map[drive.UploadID]*memoryUpload{}, puts: map[string]int{}}
	})
	died := func(claim func() bool) (times int64) {
		for ; times <= 2*maxCrashTries && claim(); times++ { // and no one works on it
			w.advance(lease.TTL + time.Second)
		}
		return times
	}

	good := w.create(t, e, w.manifest(t, "good"))
	for range 2 * maxCrashTries {
		w.claim(t, e)
		w.write(t, exec("UPDATE exports SET claimed_done = claimed_done - 1 WHERE id = ?", good.ID)) // as if one entry had arrived
		w.advance(lease.TTL + time.Second)
	}
	if w.finish(t, e); w.get(t, e, good.ID).State != Sealed {
		t.Fatalf("one that got on each time is %s", w.get(t, e, good.ID).State)
	}

	bad := w.create(t, e, w.manifest(t, "bad"))
	var last *batch
	times := died(func() bool {
		last = w.claim(t, e)
		return last.Tries <= maxCrashTries
	})
	e.workers.work(t.Context(), last)
	if got := w.get(t, e, bad.ID); got.State != Failed || got.Error != "internal" || times != maxCrashTries+1 {
		t.Errorf("after %d deaths the batch is %s: %s", times, got.State, got.Error)
	}

	j, err := e.Materialise(t.Context(), w.who, good.ID, w.root, "")
	if err != nil {
		t.Fatal(err)
	}
	var mine *Job
	times = died(func() bool {
		if mine, err = e.jobs.claim(t.Context()); err != nil || mine == nil {
			t.Fatal(mine, err)
		}
		return mine.tries <= maxCrashTries
	})
	e.jobs.work(t.Context(), mine)
	jobs, err := e.Jobs(t.Context(), w.who, good.ID)
	if err != nil || len(jobs) != 1 || jobs[0].ID != j.ID || jobs[0].State != "failed" || times != maxCrashTries+1 {
		t.Errorf("after %d deaths the job is %+v, %v", times, jobs, err)
	}
}
