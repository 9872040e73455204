package webhook_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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
