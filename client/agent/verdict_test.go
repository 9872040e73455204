package agent

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"smartdrive/client"
)

// judging is a server that takes bundles in: it answers GET /bundles with what says tells.
type judging struct {
	http.Handler
	says func() []client.Bundle
}

func (j *judging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/bundles" {
		j.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"items": j.says(), "next_cursor": nil}) // to memory
}

func TestTheServersVerdictIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.drop(t, "a.xml", "<a/>")
	var began atomic.Bool
	var asked atomic.Int64
	w.opt.Settle = 5 * time.Minute // fewer looks in a day
	w.wire.to = &judging{w.server, func() (all []client.Bundle) {
		asked.Add(1)
		for id := range w.sealed(t) {
			b := client.Bundle{ID: "1", SenderID: id, Source: "acme", State: "running"}
			if began.Load() {
				b.State, b.Rejected, b.Reason, b.Detail = "done", 1, "invalid", "BR-02"
			}
			all = append(all, b)
		}
		return append(all, client.Bundle{ID: "2", SenderID: "another's", State: "rejected"})
	}}
	synctest.Test(t, func(t *testing.T) {
		stop := w.start(t)
		time.Sleep(20 * time.Minute)
		if s := status(t, w); len(s.Bundles) != 1 || s.Bundles[0].Verdict != nil || s.Alarming() {
			t.Errorf("before the server has ended with it: %+v", s)
		}
		began.Store(true)
		time.Sleep(time.Hour)
		want := Verdict{State: "done", Rejected: 1, Reason: "invalid: BR-02"}
		s := status(t, w)
		if len(s.Bundles) != 1 || s.Bundles[0].Verdict == nil || *s.Bundles[0].Verdict != want || !s.Alarming() {
			t.Errorf("after it: %+v", s)
		}
		before := asked.Load()
		time.Sleep(24 * time.Hour)
		if more := asked.Load() - before; more != 0 {
			t.Errorf("it was asked %d times more", more)
		}
		stop()
	})
}
