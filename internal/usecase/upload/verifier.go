package upload

import (
	"context"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/usecase/upload/claim"
)

// answerVerifier checks challenge answers in the background if the content is too large to read
// while the client waits (decision 180). It is safe for concurrent use.
type answerVerifier struct {
	sessions *Sessions

	mu      sync.Mutex
	running map[drive.UploadID]bool
}

// begin stores the answer in the row and starts its check in the background. It returns the
// upload's view at once; the upload accepts parts meanwhile. It returns retry if the row was
// changed concurrently. The caller holds the state lock.
func (a *answerVerifier) begin(ctx context.Context, who drive.Who, l *liveUpload, row Row, answered *claim.Challenge) (View, outcome, error) {
	s := a.sessions
	want := row
	want.Challenge = answered
	next, out, err := s.transitions.commit(ctx, l, row, want, quota.Move{})
	if err != nil || out == retry {
		return View{}, out, err
	}
	s.sched.arm(ctx, next)
	a.note(row.ID, true)
	s.work.run(func(ctx context.Context) {
		defer a.note(row.ID, false)
		if err := a.check(ctx, who, next); err != nil && ctx.Err() == nil {
			s.opt.Log.WarnContext(ctx, "challenge answer could not be checked; the upload continues without instant upload", "upload", row.ID, "error", err)
		}
	})
	v, err := s.views.ofOpen(ctx, next)
	return v, finished, err
}

// check reads the challenged content and links it if the answer is right, else discards the
// challenge. It does nothing if the upload no longer waits for this answer.
func (a *answerVerifier) check(ctx context.Context, who drive.Who, row Row) error {
	s := a.sessions
	ctx, cancel := context.WithTimeout(ctx, row.Challenge.Until.Sub(s.clocks.now()))
	defer cancel()
	match, err := s.claims.CheckStoredAnswer(ctx, s.DB, row.claim(), func(ctx context.Context) bool {
		now, err := findRow(ctx, s.DB, row.ID)
		return err != nil || now.waitsFor(row.Challenge)
	})
	if err != nil {
		return err
	}
	_, err = s.onOpen(ctx, who, row.ID, func(l *liveUpload, now Row) (View, outcome, error) {
		switch {
		case !now.waitsFor(row.Challenge):
			return View{}, finished, nil
		case match.IsZero() || s.Tree.CheckPlace(ctx, s.DB, now.Account, now.place()) != nil: // Complete will report what is wrong with the target
			return s.refuse(ctx, l, now)
		}
		return s.link(ctx, l, now, match)
	})
	return err
}

// waitsFor reports whether the upload is active or parked and the answer to c is still unchecked.
func (r Row) waitsFor(c *claim.Challenge) bool {
	return (r.State == Active || r.State == Parked) && r.Challenge.Answered() && r.Challenge.Nonce == c.Nonce
}

// note records whether a goroutine of this process is checking the answer of an upload, for runs.
func (a *answerVerifier) note(id drive.UploadID, runs bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if runs {
		a.running[id] = true
	} else {
		delete(a.running, id)
	}
}

// runs reports whether a goroutine of this process is checking the stored answer of upload id.
// Other instances may check it even so.
func (a *answerVerifier) runs(id drive.UploadID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[id]
}
