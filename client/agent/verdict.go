package agent

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"time"

	"smartdrive/client"
)

// Verdict is what became of a bundle on the server.
type Verdict struct {
	State     string `json:"state"` // done or rejected
	Reason    string `json:"reason,omitempty"`
	Accepted  int64  `json:"accepted"`
	Rejected  int64  `json:"rejected"`
	Duplicate int64  `json:"duplicate"`
	Conflict  int64  `json:"conflict"`
}

// How the server is asked what became of bundles: after 5 s, 10 s, 20 s and so on, and given up in
// the course of a day. That nothing is known then is no failure of the agent.
const (
	firstAsk = 5 * time.Second
	mostAsk  = 30 * time.Minute
	mostAsks = 50
	mostRead = 2000 // bundles of the server's list, the newest first: a week of them
)

// ask asks the server what has become of what was sent, when it is time. The error is that of the
// state.
func (a *Agent) ask(ctx context.Context) error {
	open := a.unanswered()
	if len(open) == 0 || a.asks >= mostAsks || time.Now().Before(a.nextAsk) {
		return nil
	}
	a.nextAsk = time.Now().Add(min(mostAsk, firstAsk<<min(a.asks, 12)))
	a.asks++
	known := map[string]*Verdict{}
	read := 0
	for b, err := range a.opt.Client.AllBundles(ctx, url.Values{"source": {a.source}}) {
		if err != nil {
			a.log.Debug("the server does not say what became of bundles", "err", err)
			break
		}
		a.contact()
		if open[b.SenderID] {
			delete(open, b.SenderID)
			if v := verdictOf(b); v != nil {
				known[b.SenderID] = v
			}
		}
		if read++; len(open) == 0 || read == mostRead {
			break
		}
	}
	if len(known) == 0 {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		v := known[id]
		a.log.Info("taken in by the server", "bundle", id, "state", v.State, "accepted", v.Accepted, "rejected", v.Rejected,
			"duplicate", v.Duplicate, "conflict", v.Conflict, "reason", v.Reason)
	}
	return a.commit("verdict", func(s *state) {
		s.Ended = slices.Clone(s.Ended)
		for n := range s.Ended {
			if v := known[s.Ended[n].ID]; v != nil {
				s.Ended[n].Verdict = v
			}
		}
	})
}

// unanswered are the bundles that were sent to this source and of which the server has said nothing
// yet.
func (a *Agent) unanswered() map[string]bool {
	open := map[string]bool{}
	for _, e := range a.state.Ended {
		if e.Outcome == Sent && e.Verdict == nil && e.Source == a.source {
			open[e.ID] = true
		}
	}
	return open
}

// verdictOf is nil while the server is still at it.
func verdictOf(b client.Bundle) *Verdict {
	if b.State != "done" && b.State != "rejected" {
		return nil
	}
	v := &Verdict{State: b.State, Reason: b.Reason, Accepted: b.Accepted, Rejected: b.Rejected, Duplicate: b.Duplicate, Conflict: b.Conflict}
	if b.Detail != "" {
		v.Reason += ": " + b.Detail
	}
	return v
}
