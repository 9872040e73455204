package app

import (
	"context"
	"errors"
	"sync"
	"testing"

	"example.org/smartdrive/internal/engine/mail"
	"example.org/smartdrive/internal/head/rest"
)

// Concurrent checks of the mail server share one probe and its result.
func TestMailProbeIsShared(t *testing.T) {
	t.Parallel()
	asked := 0
	m := newMailCheck(rest.MailReport{Server: "mail.example.org:465"}, func(context.Context) (bool, error) {
		asked++ // one at a time, which the race detector sees
		return false, &mail.StepError{Step: mail.StepLogin, Err: errors.New("535 who are you")}
	})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			got, err := m.report(t.Context())
			if err != nil || got != (rest.MailReport{State: "login", Server: "mail.example.org:465", Says: "535 who are you"}) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
	if asked != 1 {
		t.Errorf("the server was asked %d times", asked)
	}
}

// A probe that its caller cancels is not cached: the next check probes again.
func TestCanceledMailProbeIsNotCached(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	m := newMailCheck(rest.MailReport{}, func(ctx context.Context) (bool, error) {
		cancel()
		return true, ctx.Err()
	})
	if got, err := m.report(gone); err == nil {
		t.Errorf("%+v", got)
	}
	if got, err := m.report(t.Context()); err != nil || got.State != "ok" || !got.Encrypted {
		t.Errorf("%+v, %v", got, err)
	}
}
