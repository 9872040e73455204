package idem

import (
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

func TestDoubleClickAllowsABurstAndThenARate(t *testing.T) {
	t.Parallel()
	c := newClock()
	d := NewClickLimiter(Options{Now: c.Now})
	ann, bob := drive.NewID[drive.UserID](), drive.NewID[drive.UserID]()
	allowed := func(user drive.UserID, operation string) (n int) {
		for d.Allow(user, operation) == nil {
			n++
		}
		return n
	}
	if n := allowed(ann, "upload"); n != 200 {
		t.Fatalf("a burst of %d", n)
	}
	err := d.Allow(ann, "upload")
	wantKind(t, err, drive.Rate)
	var e *drive.Error
	if !errors.As(err, &e) || e.Args["retry_after"] != 1 {
		t.Fatalf("retry after %v s", e.Args["retry_after"])
	}
	if n := allowed(bob, "upload"); n != 200 {
		t.Fatalf("another user's burst is %d", n)
	}
	if n := allowed(ann, "folder"); n != 200 {
		t.Fatalf("another operation's burst is %d", n)
	}
	c.Advance(time.Second)
	if n := allowed(ann, "upload"); n != 100 {
		t.Fatalf("%d in the second after", n)
	}
}
