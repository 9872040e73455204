package agent

import (
	"context"
	"errors"
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
// the course of a day. That nothing is known then is not a failure of the agent, but documents may
// be lost.
const (
	firstAsk   = 5 * time.Second
	mostAsk    = 30 * time.Minute
	mostAsks   = 50
	answerTime = 24 * time.Hour // after which somebody is to look at a bundle of which nothing is known
	mostRead   = 2000           // bundles of the server's list, the newest first: a week of them
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
	return a.hear(ctx, open)
}

// hear asks what has become of bundles, and writes down what is known of them.
func (a *Agent) hear(ctx context.Context, open map[string]bool) error {
	known, err := verdicts(ctx, a.opt.Client, a.source, open)
	if err != nil {
		a.log.Debug("the server does not say what became of bundles", "error", err)
		a.renew(err)
	} else {
		a.contact()
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

// verdicts asks the server about bundles of a source: those that it has ended with. With an error
// some may be known.
func verdicts(ctx context.Context, api *client.Client, source string, open map[string]bool) (map[string]*Verdict, error) {
	known := map[string]*Verdict{}
	left := maps.Clone(open)
	read := 0
	for b, err := range api.AllBundles(ctx, url.Values{"source": {source}}) {
		if err != nil {
			return known, err
		}
		if left[b.SenderID] {
			delete(left, b.SenderID)
			if v := verdictOf(b); v != nil {
				known[b.SenderID] = v
			}
		}
		if read++; len(left) == 0 || read == mostRead {
			break
		}
	}
	return known, nil
}

// How often the server is asked by a run that waits for outcomes: after half a second, then less
// and less often.
const (
	firstHear = 500 * time.Millisecond
	mostHear  = 10 * time.Second
)

// outcomes waits until the server has said what became of all bundles, and returns whether it has
// accepted all of the n that this run has sent.
func (a *Agent) outcomes(ctx context.Context, n int64) error {
	until := time.Now().Add(a.opt.Outcomes)
	for pause := firstHear; len(a.unanswered()) > 0 && time.Now().Before(until); pause = min(2*pause, mostHear) {
		if err := wait(ctx, min(pause, time.Until(until))); err != nil {
			return err
		}
		if err := a.hear(ctx, a.unanswered()); err != nil {
			return err
		}
	}
	open, ours := a.unanswered(), int64(0)
	var err error
	for _, e := range a.state.Ended { // the newest first
		if e.Outcome != Sent {
			continue
		}
		if ours++; ours > n {
			break
		}
		switch {
		case open[e.ID]:
			err = errors.Join(err, ErrUnknown)
		case e.Verdict != nil && !e.Verdict.all():
			err = errors.Join(err, ErrRejected)
		}
	}
	return err
}

// all reports whether everything was accepted, or was there already.
func (v *Verdict) all() bool { return v.State == "done" && v.Rejected == 0 && v.Conflict == 0 }

// Ask completes a status by asking the server what became of bundles of which the agent has not
// heard. What it does not say stays open.
func (s *Status) Ask(ctx context.Context, api *client.Client) error {
	source, err := sourceOf(s.To)
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, e := range s.Bundles {
		if e.Outcome == Sent && e.Verdict == nil && e.Source == source {
			open[e.ID] = true
		}
	}
	if len(open) == 0 {
		return nil
	}
	known, err := verdicts(ctx, api, source, open)
	for n := range s.Bundles {
		if v := known[s.Bundles[n].ID]; v != nil {
			s.Bundles[n].Verdict = v
		}
	}
	return err
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
