package space

import (
	"testing"
	"time"

	"smartdrive/internal/base/drive"
)

// TestSearchesTakeTheirTime asks as fast as it is let: some at once, then one every so often, and
// nobody waits for somebody else.
func TestSearchesTakeTheirTime(t *testing.T) {
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
	if asked != 3+4 { // ten seconds, of which the last one begins before it ends
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
