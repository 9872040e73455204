package agent

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"time"

	"example.org/smartdrive/client"
)

// Verdict is the server's outcome of a bundle: its state and the counts of its documents.
type Verdict struct {
	State     string `json:"state"` // done or rejected
	Reason    string `json:"reason,omitempty"`
	Accepted  int64  `json:"accepted"`
	Rejected  int64  `json:"rejected"`
	Duplicate int64  `json:"duplicate"`
	Conflict  int64  `json:"conflict"`
}

// Polling for verdicts: after 5 s, 10 s, 20 s and so on, for about a day. A bundle without verdict
// by then is not an error of the agent, but its documents may be lost.
const (
	minPoll         = 5 * time.Second
	maxPoll         = 30 * time.Minute
	maxPolls        = 50
	verdictDeadline = 24 * time.Hour // after that a bundle without verdict needs a person
	maxListed       = 2000           // bundles read of the server's list, newest first: about a week
)

// pollVerdicts asks the server for outstanding verdicts if a poll is due. The error is one of the
// state.
func (a *Agent) pollVerdicts(ctx context.Context) error {
	open := a.withoutVerdict()
	if len(open) == 0 || a.polls >= maxPolls || time.Now().Before(a.nextPoll) {
		return nil
	}
	a.nextPoll = time.Now().Add(min(maxPoll, minPoll<<min(a.polls, 12)))
	a.polls++
	return a.fetchVerdicts(ctx, open)
}

// fetchVerdicts asks the server for the verdicts of the bundles in open, that is, whether it
// accepted their documents, and stores the known ones in the state. Errors of the server are only
// logged. It fails if the state cannot be written.
func (a *Agent) fetchVerdicts(ctx context.Context, open map[string]bool) error {
	known, err := queryVerdicts(ctx, a.opt.Client, a.source, open)
	if err != nil {
		a.log.Debug("cannot fetch the verdicts of sent bundles; trying again later", "error", err)
		a.renew(err)
	} else {
		a.recordContact()
	}
	if len(known) == 0 {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		v := known[id]
		a.log.Info("bundle processed by the server", "bundle", id, "state", v.State, "accepted", v.Accepted, "rejected", v.Rejected,
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

// queryVerdicts returns the verdicts of those bundles in open that the server has finished.
// Together with an error, the result may be incomplete.
func queryVerdicts(ctx context.Context, api *client.Client, source string, open map[string]bool) (map[string]*Verdict, error) {
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
		if read++; len(left) == 0 || read == maxListed {
			break
		}
	}
	return known, nil
}

// Polling intervals of waitForVerdicts; they double from the first to the second.
const (
	minWaitPoll = 500 * time.Millisecond
	maxWaitPoll = 10 * time.Second
)

// waitForVerdicts waits until the server has given all verdicts, at most Options.VerdictTimeout. It
// returns an error that wraps ErrRejected if one of the last n sent bundles was not completely
// accepted, and ErrNoVerdict if one has no verdict. If ctx ends first, it returns the cause.
func (a *Agent) waitForVerdicts(ctx context.Context, n int64) error {
	until := time.Now().Add(a.opt.VerdictTimeout)
	for pause := minWaitPoll; len(a.withoutVerdict()) > 0 && time.Now().Before(until); pause = min(2*pause, maxWaitPoll) {
		if err := sleep(ctx, min(pause, time.Until(until))); err != nil {
			return err
		}
		if err := a.fetchVerdicts(ctx, a.withoutVerdict()); err != nil {
			return err
		}
	}
	open, ours := a.withoutVerdict(), int64(0)
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
			err = errors.Join(err, ErrNoVerdict)
		case e.Verdict != nil && !e.Verdict.allAccepted():
			err = errors.Join(err, ErrRejected)
		}
	}
	return err
}

// allAccepted reports whether the bundle is done and every document was accepted or is a duplicate.
func (v *Verdict) allAccepted() bool { return v.State == "done" && v.Rejected == 0 && v.Conflict == 0 }

// LoadVerdicts fetches the verdicts that the agent does not know yet from the server and adds them
// to the status. Unfinished bundles stay without verdict. After an error the verdicts fetched so
// far are in the status.
func (s *Status) LoadVerdicts(ctx context.Context, api *client.Client) error {
	source, err := parseSource(s.To)
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
	known, err := queryVerdicts(ctx, api, source, open)
	for n := range s.Bundles {
		if v := known[s.Bundles[n].ID]; v != nil {
			s.Bundles[n].Verdict = v
		}
	}
	return err
}

// withoutVerdict returns the set of ids of the bundles sent to this source that have no verdict
// yet; empty if there are none.
func (a *Agent) withoutVerdict() map[string]bool {
	open := map[string]bool{}
	for _, e := range a.state.Ended {
		if e.Outcome == Sent && e.Verdict == nil && e.Source == a.source {
			open[e.ID] = true
		}
	}
	return open
}

// verdictOf returns the verdict of a bundle, nil while the server is processing it.
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
