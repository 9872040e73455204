package agent

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/client"
)

// judging is a server of bundles: it answers GET /bundles with the result of tells.
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

func TestStatusShowsVerdict(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
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
		if s := status(t, w); len(s.Bundles) != 1 || s.Bundles[0].Verdict != nil || s.NeedsAttention() {
			t.Errorf("before the server has ended with it: %+v", s)
		}
		began.Store(true)
		time.Sleep(time.Hour)
		want := Verdict{State: "done", Rejected: 1, Reason: "invalid: BR-02"}
		s := status(t, w)
		if len(s.Bundles) != 1 || s.Bundles[0].Verdict == nil || *s.Bundles[0].Verdict != want || !s.NeedsAttention() {
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

// TestOnceWaitsForVerdicts runs an agent once against servers that end differently with its bundle.
func TestOnceWaitsForVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends client.Bundle
		want error
		says string // of what somebody should look at; empty: nothing
	}{
		"all accepted":    {client.Bundle{State: "done", Accepted: 1}, nil, ""},
		"there already":   {client.Bundle{State: "done", Duplicate: 1}, nil, ""},
		"some rejected":   {client.Bundle{State: "done", Rejected: 1}, ErrRejected, "1 documents were rejected"},
		"in conflict":     {client.Bundle{State: "done", Conflict: 1}, ErrRejected, "1 documents are in conflict"},
		"rejected wholly": {client.Bundle{State: "rejected", Reason: "damaged"}, ErrRejected, "was rejected as a whole: damaged"},
		"not known":       {client.Bundle{State: "running"}, ErrNoVerdict, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.drop(t, "a.xml", "<a/>")
			w.opt.VerdictTimeout = time.Minute
			var began time.Time
			w.wire.to = &judging{w.server, func() (all []client.Bundle) {
				for id := range w.sealed(t) {
					b := client.Bundle{ID: "1", SenderID: id, Source: "acme", State: "running"}
					if time.Since(began) > 20*time.Second { // the server takes its time
						b = c.ends
						b.ID, b.SenderID = "1", id
					}
					all = append(all, b)
				}
				return all
			}}
			synctest.Test(t, func(t *testing.T) {
				began = time.Now()
				err := w.once(t, nil)
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("it ends with %v, want %v", err, c.want)
				}
				if took := time.Since(began); took < 20*time.Second || took > 2*time.Minute {
					t.Errorf("it took %s", took)
				}
			})
			s := status(t, w)
			if got := strings.Join(s.Concerns(), "; "); !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
				t.Errorf("somebody should look at %q, want %q", got, c.says)
			}
		})
	}
}

// TestStatusAskLoadsVerdicts ends an agent before the server has ended with its bundle.
func TestStatusAskLoadsVerdicts(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, "a.xml", "<a/>")
	w.wire.to = &judging{w.server, func() (all []client.Bundle) {
		for id := range w.sealed(t) {
			all = append(all, client.Bundle{ID: "1", SenderID: id, Source: "acme", State: "done", Accepted: 2, Rejected: 1})
		}
		return all
	}}
	w.wire.set(func(r *http.Request) (int, string) {
		if r.URL.Path == "/api/v1/bundles" {
			return http.StatusServiceUnavailable, "unavailable"
		}
		return 0, ""
	})
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, nil); err != nil {
			t.Error(err)
		}
	})
	w.wire.set(nil)
	s := status(t, w)
	if len(s.Bundles) != 1 || s.Bundles[0].Verdict != nil || len(s.Concerns()) != 0 {
		t.Fatalf("before it is asked: %+v", s)
	}
	if err := s.LoadVerdicts(t.Context(), w.opt.Client); err != nil || s.Bundles[0].Verdict == nil || s.Bundles[0].Verdict.Rejected != 1 || len(s.Concerns()) != 1 {
		t.Errorf("after it: %+v, %v", s, err)
	}
}

// A server that was restored from a backup never returns a verdict on a bundle that it has lost.
func TestMissingVerdictIsAConcernAfterADay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ended BundleResult
		want  bool
	}{
		{BundleResult{ID: "1", Outcome: Sent, At: time.Now().Add(-25 * time.Hour)}, true},
		{BundleResult{ID: "1", Outcome: Sent, At: time.Now().Add(-time.Hour)}, false},
		{BundleResult{ID: "1", Outcome: Refrozen, At: time.Now().Add(-25 * time.Hour)}, false},
		{BundleResult{ID: "1", Outcome: Sent, At: time.Now().Add(-25 * time.Hour), Verdict: &Verdict{State: "done", Duplicate: 1}}, false},
	} {
		all := Status{Running: true, UpdatedAt: time.Now(), Bundles: []BundleResult{c.ended}}.Concerns()
		if got := len(all) == 1 && strings.Contains(all[0], "does not say"); got != c.want {
			t.Errorf("%+v: %q", c.ended, all)
		}
	}
}
