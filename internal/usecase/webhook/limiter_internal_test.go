package webhook

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// TestSlowReceiversHaveOwnSlots: webhooks of other accounts get a turn although nine accounts have
// four slow receivers each, which share a bounded number of slots.
func TestSlowReceiversHaveOwnSlots(t *testing.T) {
	t.Parallel()
	turns, now := newLimiter(), drive.Time(1_800_000_000_000)
	take := func(account drive.AccountID) bool { return turns.acquire(drive.NewID[ID](), account, now) }
	slow := make([]drive.AccountID, 9)
	taken := 0
	for i := range slow {
		slow[i] = drive.NewID[drive.AccountID]()
		for range maxPerAccount {
			if take(slow[i]) {
				taken++
			}
		}
	}
	if taken != maxQuick {
		t.Fatalf("%d are sent to at a time, want %d", taken, maxQuick)
	}
	other := drive.NewID[drive.AccountID]()
	now = now.Add(slowAfter)
	if !take(other) {
		t.Error("another account waits for slow receivers")
	}
	if !take(slow[8]) { // none of its receivers was sent to yet
		t.Error("an account of which nothing is known waits for slow receivers")
	}
	if take(slow[0]) {
		t.Error("slow receivers take more than their own turns")
	}
	turns.release(func() (id ID) {
		for busy, s := range turns.running {
			if s.account == slow[0] {
				id = busy
			}
		}
		return id
	}(), slow[0])
	if args := turns.excluded(now); len(args) != maxRunning+maxExcludedAccounts {
		t.Errorf("%d arguments, want %d", len(args), maxRunning+maxExcludedAccounts)
	}
	if take(slow[0]) {
		t.Error("a slow account took a turn while slow receivers have more than their own")
	}
	now = now.Add(slowFor)
	for id, s := range turns.running {
		turns.release(id, s.account)
	}
	if !take(slow[0]) {
		t.Error("an account is slow for ever")
	}
}
