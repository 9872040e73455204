package upload

import (
	"context"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/claim"
)

// claim returns the content that the upload claims to have.
func (r Row) claim() claim.Claim {
	return claim.Claim{Account: r.Account, User: r.User, Size: r.Size, Digests: r.Digests, Challenge: r.Challenge}
}

// Patch changes the declared digests or the target of an open upload. Zero fields keep the current
// values; Digests are added to those declared before.
type Patch struct {
	Digests  digest.Set
	Parent   drive.NodeID
	Name     drive.Name
	Conflict drive.Conflict
}

// Patch changes the target or adds digests to an open upload and returns its new view. If the
// account owns content with these digests the upload is linked to it and done; a challenge in the
// view asks the client to prove possession. Errors: NotFound, Gone, WrongState, NameTaken,
// ParentGone, Quota; InProgress if the upload keeps changing.
func (s *Sessions) Patch(ctx context.Context, who drive.Who, id drive.UploadID, p Patch) (View, error) {
	v, err := s.onOpen(ctx, who, id, func(l *liveUpload, row Row) (View, outcome, error) {
		if err := s.auth.mayMove(ctx, who, row, p.Parent, p.Conflict); err != nil {
			return View{}, finished, err
		}
		return s.patch(ctx, l, row, p)
	})
	return v.redactFor(who), err
}

// onOpen runs act on an active or parked upload under the state lock. For a done upload it returns
// the view, because the request may repeat the one that linked it. Other states: WrongState, Gone.
func (s *Sessions) onOpen(ctx context.Context, who drive.Who, id drive.UploadID, act func(*liveUpload, Row) (View, outcome, error)) (v View, err error) {
	err = withStateLock(ctx, &s.table, id, func(l *liveUpload) (out outcome, err error) {
		row, err := s.table.loadAuthorized(ctx, who, l)
		if err != nil {
			return finished, err
		}
		switch row.State {
		case Active, Parked:
			v, out, err = act(l, row)
			return out, err
		case Done:
			v, err = s.views.of(ctx, s.DB, row)
			return finished, err
		case Sealing, Reclaiming, Gone:
		}
		return finished, row.ended()
	})
	return v, err
}

// patch commits the change of Patch as one state transition, and then links content that the
// account owns. It returns retry if a concurrent change of the row won. The caller holds the state
// lock of l and has checked the user's rights on the target.
func (s *Sessions) patch(ctx context.Context, l *liveUpload, row Row, p Patch) (View, outcome, error) {
	if row.isPartial() {
		return View{}, finished, row.errPartial()
	}
	next, err := s.placer.withTarget(ctx, row, p.Parent, p.Name, p.Conflict)
	if err != nil {
		return View{}, finished, err
	}
	if err := s.Tree.CheckPlace(ctx, s.DB, row.Account, next.place()); err != nil {
		return View{}, finished, err
	}
	next.Digests = mergeDigests(row.Digests, p.Digests)
	offer := claim.Offer{}
	if len(p.Digests) > 0 {
		if offer, err = s.claims.Offer(ctx, s.DB, next.claim()); err != nil {
			return View{}, finished, err
		}
		next.Challenge = offer.Challenge
	}
	count := func(ctx context.Context, tx *sqldb.Tx) error {
		return s.creator.countQuestion(ctx, tx, row.User, offer.Challenged)
	}
	next, out, err := s.transitions.commitWith(ctx, l, row, next, quota.Move{}, count)
	if err != nil || out == retry {
		return View{}, out, err
	}
	s.sched.arm(ctx, next)
	if !offer.Owned.IsZero() {
		return s.link(ctx, l, next, offer.Owned)
	}
	v, err := s.views.ofOpen(ctx, next)
	return v, finished, err
}

// AnswerChallenge answers the challenge of an upload. A right answer links the content (View.State
// done). After a wrong or late one the upload continues as an ordinary one; the response does not
// reveal whether the answer was wrong or the content is gone.
func (s *Sessions) AnswerChallenge(ctx context.Context, who drive.Who, id drive.UploadID, algo digest.ProofAlgo, answer []byte) (View, error) {
	v, err := s.onOpen(ctx, who, id, func(l *liveUpload, row Row) (View, outcome, error) { return s.prove(ctx, who, l, row, algo, answer) })
	return v.redactFor(who), err
}

// prove checks the answer to the upload's challenge: a right one links the content, a wrong one
// removes the challenge. An answer about more than claim.MaxImmediate bytes is stored and checked
// later; the view then has state Verifying. It returns retry if a concurrent change of the row won;
// the caller holds the state lock of l.
func (s *Sessions) prove(ctx context.Context, who drive.Who, l *liveUpload, row Row, algo digest.ProofAlgo, answer []byte) (View, outcome, error) {
	if err := s.Tree.CheckPlace(ctx, s.DB, row.Account, row.place()); err != nil {
		return View{}, finished, err // keep the challenge: the client may choose another name and retry
	}
	now := s.clocks.now()
	switch {
	case row.Challenge.Answered():
		v, err := s.views.ofOpen(ctx, row) // repeated request
		return v, finished, err
	case row.Challenge != nil && row.Size > claim.MaxImmediate && row.Challenge.CoversAll(int64(row.Size)) && !row.Challenge.Expired(now):
		return s.verifier.begin(ctx, who, l, row, row.Challenge.WithAnswer(algo, answer, row.Size, now))
	}
	match, err := s.claims.CheckAnswer(ctx, s.DB, row.claim(), algo, answer)
	if err != nil {
		return View{}, finished, err
	}
	if match.IsZero() {
		return s.refuse(ctx, l, row)
	}
	return s.link(ctx, l, row, match)
}

// refuse discards the challenge and returns the view. The question was already counted: this user
// gets none for this content for a day.
func (s *Sessions) refuse(ctx context.Context, l *liveUpload, row Row) (View, outcome, error) {
	if row.Challenge != nil {
		want := row
		want.Challenge = nil
		next, out, err := s.transitions.commit(ctx, l, row, want, quota.Move{})
		if err != nil || out == retry {
			return View{}, out, err
		}
		s.sched.arm(ctx, next)
		row = next
	}
	v, err := s.views.ofOpen(ctx, row)
	return v, finished, err
}

// link is the transition active or parked ⇒ done with existing content. The transaction checks the
// quota again, and that the content still has a reference. If not, the upload continues as an
// ordinary one.
func (s *Sessions) link(ctx context.Context, l *liveUpload, row Row, id drive.BlobID) (View, outcome, error) {
	l.refuseParts(drive.Fail(drive.WrongState, "state", Done.Public()))
	defer l.admitParts()
	if err := l.drain(ctx, true); err != nil {
		return View{}, finished, err
	}
	if row.State == Active {
		if _, err := s.transitions.fence(ctx, l, row); err != nil {
			return View{}, finished, err
		}
	}
	next, out, err := s.linkDone(ctx, row, id)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return s.refuse(ctx, l, row)
	case isClientError(err):
		return View{}, finished, err
	case err != nil || out == retry:
		l.invalidate()
		s.sched.armRecheck(ctx, row, err)
		return View{}, out, err
	}
	l.setRow(next)
	s.transitions.cleanUp(ctx, next)
	v, err := s.views.of(ctx, s.DB, next)
	return v, finished, err
}

// linkDone is the transaction of link: it charges the file, adds a reference to content id and puts
// the upload into state done. next is the row as written, which the caller must cache. It returns
// NotFound if the content no longer exists, and retry if the row was changed concurrently.
func (s *Sessions) linkDone(ctx context.Context, row Row, id drive.BlobID) (next Row, out outcome, err error) {
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		move := quota.Move{Finished: row.Size, Reserved: -row.Reserved, Unfinished: -row.Held}
		if err := s.Ledger.Apply(ctx, tx, row.Account, move); err != nil {
			return err
		}
		if err := s.Content.Ref(ctx, tx, id); err != nil {
			return err
		}
		if err := s.claims.UncountChallenge(ctx, tx, row.User, id); err != nil {
			return err
		}
		linked := row
		linked.Digests = digest.Set{} // the declared digests were not verified
		var err error
		next, err = s.placer.finish(ctx, tx, linked, id)
		return err
	})
	out, err = s.transitions.classify(ctx, row, err)
	return next, out, err
}
