package account

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"

	"example.org/smartdrive/internal/base/drive"
)

// holdTurns occupies all turns to hash. release frees one; the end of the test frees the others.
func (h *hasher) holdTurns(t *testing.T) (release func()) {
	t.Helper()
	for range maxConcurrentHashes {
		leave, err := h.acquire(t.Context(), requester{})
		if err != nil {
			t.Fatal(err)
		}
		release = leave
	}
	return release
}

// TestUnknownClientsQueueBehindKnown: guesses from a thousand addresses do not delay known clients.
func TestUnknownClientsQueueBehindKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(cheap)
		release := h.holdTurns(t)
		ctx, cancel := context.WithCancel(t.Context())
		turns := make(chan string, 2*maxUnknownWaiting)
		wait := func(v requester, name string) {
			go func() {
				if _, err := h.acquire(ctx, v); err != nil {
					name = drive.KindOf(err).String()
				}
				turns <- name
			}()
			synctest.Wait()
		}
		for i := range maxUnknownWaiting {
			wait(requester{source: fmt.Sprint(i)}, "stranger")
		}
		wait(requester{source: "next"}, "")
		if got := <-turns; got != drive.Rate.String() {
			t.Errorf("beyond the line there is %s", got)
		}
		for i := range maxKnownWaiting {
			wait(requester{source: fmt.Sprint(i), known: true}, "known")
		}
		served := map[string]int{}
		for range 8 {
			release()
			served[<-turns]++
		}
		if served["known"] != 6 || served["stranger"] != 2 {
			t.Errorf("of 8 turns there were %v", served)
		}
		cancel()
		synctest.Wait()
		if n := h.queued(); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

func TestOneSourceCannotFillQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(cheap)
		release := h.holdTurns(t)
		outcome := make(chan error, 1)
		for range maxPerSource {
			go func() { _, _ = h.acquire(t.Context(), requester{source: "one"}) }()
		}
		synctest.Wait()
		_, err := h.acquire(t.Context(), requester{source: "one"})
		wantKind(t, err, drive.Rate)
		go func() {
			_, err := h.acquire(t.Context(), requester{source: "other"})
			outcome <- err
		}()
		synctest.Wait()
		for range maxPerSource + 1 {
			release()
			synctest.Wait()
		}
		if err := <-outcome; err != nil {
			t.Errorf("the other one: %v", err)
		}
	})
}

// TestAttackDoesNotLockOutUser: while a thousand addresses guess at one name, its user logs in from
// a known address and from elsewhere.
func TestAttackDoesNotLockOutUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "ann", false)
	from := func(n int, password string) error {
		address := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
		_, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: password, Client: address})
		return err
	}
	home := 60000
	if err := from(home, secret); err != nil {
		t.Fatal(err)
	}
	for n := range 1000 {
		wantKind(t, from(n, "wrong horse"), drive.Unauthenticated)
	}
	for range maxPair - 1 { // a known address keeps its full limit
		wantKind(t, from(home, "wrong horse"), drive.Unauthenticated)
	}
	for _, n := range []int{home, home + 1} {
		if err := from(n, secret); err != nil {
			t.Errorf("the user: %v", err)
		}
	}
	for range maxPairUnderAttack {
		wantKind(t, from(home+2, "wrong horse"), drive.Unauthenticated)
	}
	wantKind(t, from(home+2, "wrong horse"), drive.Rate)
}
