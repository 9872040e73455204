package webhook_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/webhook"
)

// faultyTransport is a transport that panics.
type faultyTransport struct {
	broken atomic.Bool
	at     string // what it cannot reach
}

func (b *faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.broken.Load() && strings.HasPrefix(r.URL.String(), b.at) {
		panic("a defect")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestPanicEndsOneDelivery: a panic while sending to one webhook ends that delivery and nothing
// else.
func TestPanicEndsOneDelivery(t *testing.T) {
	t.Parallel()
	y, bad, good := newFixture(t), newReceiver(t), newReceiver(t)
	way := &faultyTransport{at: bad.URL}
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
	wantNames(t, []string{"a"}, good.names())
	wantNames(t, nil, bad.names())
	way.broken.Store(false)
	sendAll(t, w)
	wantNames(t, []string{"a"}, good.names())
	wantNames(t, []string{"a"}, bad.names())
}

// TestUnsettledDeliveryIsPaused: while progress cannot be stored because the disk is full, a
// receiver gets duplicates with growing pauses, not at each poll.
func TestUnsettledDeliveryIsPaused(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	y, r := newFixtureIn(t, sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector})), newReceiver(t)
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
