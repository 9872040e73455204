package export

import (
	"sync/atomic"
	"testing"
	"time"
)

// A panic while a batch is collected ends that try and not the process, which would begin the same
// batch again and end again; without it the batch is sealed.
func TestAPanicEndsATry(t *testing.T) {
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
	w.pass(time.Hour)
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Sealed {
		t.Errorf("in the end it is %s: %s", got.State, got.Error)
	}
}
