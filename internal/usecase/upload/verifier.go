package upload

import (
	"context"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/usecase/upload/claim"
)

// answerVerifier checks challenge answers in the background if the content is too large to read
// while the client waits (decision 180). It is safe for concurrent use.
type verifier struct {
	sessions *Sessions

	mu      sync.Mutex
	running map[drive.UploadID]bool
}

// begin stores the answer in the row and starts the check. It returns the upload's view at once;
// the upload accepts parts meanwhile.
func (f *verifier) begin(ctx context.Context, who drive.Who, l *live, row Row, answered *claim.Challenge) (View, outcome, error) {
	s := f.sessions
	want := row
	want.Challenge = answered
	next, out, err := s.arrows.commit(ctx, l, row, want, quota.Move{})
	if err != nil || out == again {
		return View{}, out, err
	}
	s.sched.arm(ctx, next)
	f.note(row.ID, true)
	s.work.run(func(ctx context.Context) {
		defer f.note(row.ID, false)
		if err := f.check(ctx, who, next); err != nil && ctx.Err() == nil {
			s.opt.Log.WarnContext(ctx, "challenge answer could not be checked; the upload continues without instant upload", "upload", row.ID, "error", err)
		}
	})
	v, err := s.views.ofOpen(ctx, next)
	return v, settled, err
}

// check reads the challenged content and links it if the answer is right, else discards the
// challenge. It does nothing if the upload no longer waits for this answer.
func (f *verifier) check(ctx context.Context, who drive.Who, row Row) error {
	s := f.sessions
	ctx, cancel := context.WithTimeout(ctx, row.Challenge.Until.Sub(s.clocks.now()))
	defer cancel()
	match, err := s.claims.MatchLater(ctx, s.DB, row.claim(), func(ctx context.Context) bool {
		now, err := findRow(ctx, s.DB, row.ID)
		return err != nil || now.waitsFor(row.Challenge)
	})
	if err != nil {
		return err
	}
	_, err = s.onOpen(ctx, who, row.ID, func(l *live, now Row) (View, outcome, error) {
		switch {
		case !now.waitsFor(row.Challenge):
			return View{}, settled, nil
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

// note records whether this process is checking the answer of an upload.
func (f *verifier) note(id drive.UploadID, runs bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if runs {
		f.running[id] = true
	} else {
		delete(f.running, id)
	}
}

// runs reports whether this process is checking the answer of an upload.
func (f *verifier) runs(id drive.UploadID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[id]
}
