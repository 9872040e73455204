package space

import (
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// TestSearchesAreRateLimited searches as fast as allowed: a burst, then one per interval,
// independently of other users.
func TestSearchesAreRateLimited(t *testing.T) {
	t.Parallel()
	p, now := newRateLimiter(3, 2*time.Second), time.UnixMilli(1_800_000_000_000)
	ann, bob := drive.NewID[drive.UserID](), drive.NewID[drive.UserID]()
	asked := 0
	for range 100 { // a tenth of a second apart
		if p.allow(ann, now) == nil {
			asked++
		}
		now = now.Add(100 * time.Millisecond)
	}
	if asked != 3+4 { // ten seconds; the last interval is not over
		t.Errorf("ann has asked %d times in ten seconds", asked)
	}
	if err := p.allow(bob, now); err != nil {
		t.Errorf("bob waits for ann: %v", err)
	}
	for p.allow(ann, now) == nil {
	}
	if err := p.allow(ann, now); !drive.IsKind(err, drive.Rate) {
		t.Errorf("ann asks again at once: %v", err)
	}
	if err := p.allow(ann, now.Add(2*time.Second)); err != nil {
		t.Errorf("ann has waited: %v", err)
	}
	for i := range maxLimitedUsers + 1 {
		_ = p.allow(drive.NewID[drive.UserID](), now.Add(time.Duration(i)*time.Second))
	}
	if n := len(p.refillAt); n > 10 {
		t.Errorf("%d users are remembered who can ask as they like", n)
	}
}
