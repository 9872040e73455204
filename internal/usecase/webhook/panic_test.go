package webhook_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/usecase/webhook"
)

// brittle is a transport with a defect.
type brittle struct {
	broken atomic.Bool
	at     string // what it cannot reach
}

func (b *brittle) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.broken.Load() && strings.HasPrefix(r.URL.String(), b.at) {
		panic("a defect")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A panic while one webhook is sent to ends that try, and not the process or what others are sent.
func TestAPanicEndsATry(t *testing.T) {
	t.Parallel()
	y, bad, good := newYard(t), newReceiver(t), newReceiver(t)
	way := &brittle{at: bad.URL}
	w := webhook.New(y.parts, webhook.Options{Source: "smartdrive/test", Now: y.clock, Transport: way, Log: slog.New(slog.DiscardHandler)})
	y.hook(t, w, bad.URL, "node")
	y.hook(t, w, good.URL, "node")
	y.mkdir(t, "a")
	way.broken.Store(true)
	for range 2 {
		if err := webhook.Look(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	same(t, []string{"a"}, good.names())
	same(t, nil, bad.names())
	way.broken.Store(false)
	sendAll(t, w)
	same(t, []string{"a"}, good.names())
	same(t, []string{"a"}, bad.names())
}

// While what was sent cannot be noted, because the disk is full, a receiver gets it again after
// pauses that grow, and not with each look.
func TestWhatCannotBeNotedIsNotSentWithEachLook(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	y, r := newYardIn(t, sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector})), newReceiver(t)
	w := y.hooks()
	y.hook(t, w, r.URL, "node")
	y.mkdir(t, "a")
	look := func() {
		t.Helper()
		if err := webhook.Look(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	faults.FailAll(sqldbtest.Commit, errors.New("the disk is full"))
	for range 20 {
		look()
		y.advance(5 * time.Second)
	}
	if n := len(r.names()); n < 2 || n > 5 {
		t.Errorf("sent %d times in 100 s", n)
	}
	faults.Clear()
	before := len(r.names())
	for range 3 {
		y.advance(10 * time.Minute)
		look()
	}
	if n := len(r.names()) - before; n != 1 {
		t.Errorf("sent %d times once it could be noted", n)
	}
}
