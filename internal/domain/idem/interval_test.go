package idem

import (
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

func TestIntervalsAllowOneCreationOfAKindAtATime(t *testing.T) {
	t.Parallel()
	c := newClock()
	v := NewIntervalLimiter(map[string]time.Duration{"export": 5 * time.Second}, Options{Now: c.Now})
	ann, bob := drive.NewID[drive.UserID](), drive.NewID[drive.UserID]()
	begin := func(user drive.UserID, kind string, wait int) func() {
		t.Helper()
		undo, err := v.Begin(user, kind)
		got := 0
		if e, ok := errors.AsType[*drive.Error](err); ok && e.Kind == drive.Rate {
			got, _ = e.Args["retry_after"].(int)
		}
		if got != wait || (err == nil) != (wait == 0) {
			t.Errorf("%v; want to wait for %d s", err, wait)
		}
		return undo
	}
	begin(ann, "export", 0)
	begin(ann, "export", 5)
	begin(bob, "export", 0)
	begin(ann, "folder", 0)
	begin(ann, "folder", 0)
	c.Advance(3500 * time.Millisecond)
	begin(ann, "export", 2)
	c.Advance(1500 * time.Millisecond)
	undo := begin(ann, "export", 0)
	undo() // it was refused: the next one need not wait
	late := begin(ann, "export", 0)
	c.Advance(5 * time.Second)
	begin(ann, "export", 0)
	late() // its interval is over
	begin(ann, "export", 5)
}
