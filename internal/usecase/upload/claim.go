package upload

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// Instant upload: claim, challenge, link (docs/architecture.md tells why a digest alone must not
// link). The answer to a challenge takes every byte of the content, so only somebody who has all of
// it passes; and a user is asked once a day about one content.
const (
	minInstant  = drive.MiB      // nothing below: small files are guessed too easily, and sent quickly
	maxProof    = 64 * drive.MiB // the largest content that is asked for, since the answer takes all of it
	refusalTime = 24 * time.Hour // how long one question about a content counts for its user, unless it was answered rightly
	maxProvers  = 2              // proofs read at a time: 64 MiB each at the most
)

// challenge is the open question to a claim: single use, bound to this upload by being in its row.
type challenge struct {
	digest.Challenge
	Blobs []drive.BlobID `json:"blobs"` // the content that it may turn out to be
}

// covers reports whether the question is open and about these contents.
func (c *challenge) covers(blobs []content.Blob, now drive.Time) bool {
	return c != nil && !c.Expired(now) && slices.Equal(c.Blobs, idsOf(blobs))
}

// offer is the answer to a claim: content to link at once, or a challenge, or neither.
type offer struct {
	owned     drive.BlobID
	challenge *challenge
	asks      []content.Blob // what a new challenge asks about; nothing when it is the one that the row has
}

func idsOf(blobs []content.Blob) []drive.BlobID {
	ids := make([]drive.BlobID, len(blobs))
	for i, b := range blobs {
		ids[i] = b.ID
	}
	return ids
}

// offer looks for content that has the digests which the row claims.
func (s *Sessions) offer(ctx context.Context, q sqldb.Querier, row Row) (offer, error) {
	if s.opt.Instant == ScopeOff || row.Size < minInstant || len(row.Digests) == 0 {
		return offer{}, nil
	}
	found, err := s.Content.Candidates(ctx, q, row.Digests, row.Size)
	if err != nil {
		return offer{}, err
	}
	var open []content.Blob
	for _, b := range found {
		owned, err := s.Content.OwnedBy(ctx, q, row.Account, b.ID)
		if err != nil {
			return offer{}, err
		}
		strong, err := s.strongly(ctx, q, b, row.Digests)
		switch {
		case err != nil:
			return offer{}, err
		case owned && strong:
			return offer{owned: b.ID}, nil
		case !owned && s.opt.Instant == ScopeUser, row.Size > maxProof:
			// not this user's business; or more than the server would read to check an answer
		default:
			open = append(open, b)
		}
	}
	return s.ask(ctx, q, row, open)
}

func (s *Sessions) strongly(ctx context.Context, q sqldb.Querier, b content.Blob, claim digest.Set) (bool, error) {
	known, err := s.Content.Aliases(ctx, q, b.ID)
	return known.SameContent(claim), err
}

// ask returns the question that is open already, so that a repeated claim asks nothing new, or
// makes one about the contents that the user has not been asked about today.
func (s *Sessions) ask(ctx context.Context, q sqldb.Querier, row Row, blobs []content.Blob) (offer, error) {
	if row.Challenge.covers(blobs, s.clocks.now()) {
		return offer{challenge: row.Challenge}, nil
	}
	var fresh []content.Blob
	for _, b := range blobs {
		asked, err := s.wasAsked(ctx, q, row.User, b)
		if err != nil {
			return offer{}, err
		}
		if !asked {
			fresh = append(fresh, b)
		}
	}
	if len(fresh) == 0 {
		return offer{}, nil
	}
	c, err := digest.NewChallenge(rand.Reader, int64(row.Size), s.clocks.now())
	if err != nil {
		return offer{}, err
	}
	return offer{challenge: &challenge{Challenge: c, Blobs: idsOf(fresh)}, asks: fresh}, nil
}

// Patch changes what an open upload claims or where it shall go. A claim may link it at once (View.State done), or bring a
// challenge. Errors: NotFound, Gone, WrongState, NameTaken, ParentGone, Quota.
type Patch struct {
	Digests  digest.Set
	Parent   drive.NodeID
	Name     drive.Name
	Conflict drive.Conflict
}

// Patch applies a Patch.
func (s *Sessions) Patch(ctx context.Context, who drive.Who, id drive.UploadID, p Patch) (View, error) {
	return s.onOpen(ctx, who, id, func(l *live, row Row) (View, error) { return s.patch(ctx, l, row, p) })
}

// onOpen runs act on an upload that is active or parked. A done one is shown: the request is a repeat of the one that linked it.
func (s *Sessions) onOpen(ctx context.Context, who drive.Who, id drive.UploadID, act func(*live, Row) (View, error)) (View, error) {
	return inTurn(ctx, s, id, func(l *live) (View, error) {
		row, err := s.loadFor(ctx, who, l)
		if err != nil {
			return View{}, err
		}
		switch row.State {
		case Active, Parked:
			return act(l, row)
		case Done:
			return s.view(ctx, s.DB, row)
		case Sealing, Reclaiming, Gone:
		}
		return View{}, row.ended()
	})
}

func (s *Sessions) patch(ctx context.Context, l *live, row Row, p Patch) (View, error) {
	if row.isPartial() {
		return View{}, row.hasNoPlace()
	}
	next, err := s.moved(ctx, row, p.Parent, p.Name, p.Conflict)
	if err != nil {
		return View{}, err
	}
	if err := s.Tree.CheckPlace(ctx, s.DB, row.Account, next.place()); err != nil {
		return View{}, err
	}
	next.Digests = merge(row.Digests, p.Digests)
	offer := offer{}
	if len(p.Digests) > 0 {
		if offer, err = s.offer(ctx, s.DB, next); err != nil {
			return View{}, err
		}
		next.Challenge = offer.challenge
	}
	count := func(ctx context.Context, tx *sqldb.Tx) error { return s.countQuestion(ctx, tx, row.User, offer.asks) }
	if next, err = s.commitWith(ctx, l, row, next, quota.Move{}, count); err != nil {
		return View{}, err
	}
	s.sched.arm(ctx, next)
	if !offer.owned.IsZero() {
		return s.link(ctx, l, next, offer.owned)
	}
	return s.viewOf(ctx, l, next)
}

// viewOf is the view of an open upload whose live the caller holds.
func (s *Sessions) viewOf(ctx context.Context, l *live, row Row) (View, error) {
	v, err := s.view(ctx, s.DB, row)
	if err != nil || !row.State.Open() {
		return v, err
	}
	if s.caps.Shared {
		staged, err := s.Staging.Load(ctx, row.Ref())
		if drive.IsKind(err, drive.NotFound) {
			err = nil
		}
		return v.withParts(staged.Parts), err
	}
	l.mu.Lock()
	parts := l.sortedParts()
	l.mu.Unlock()
	return v.withParts(parts), nil
}

// Prove answers the challenge of an upload. Right: the content is linked (View.State done). Wrong or late: the upload silently
// goes on as a normal one. Nothing tells a wrong answer from content that has gone meanwhile.
func (s *Sessions) Prove(ctx context.Context, who drive.Who, id drive.UploadID, algo digest.ProofAlgo, answer []byte) (View, error) {
	return s.onOpen(ctx, who, id, func(l *live, row Row) (View, error) { return s.prove(ctx, l, row, algo, answer) })
}

func (s *Sessions) prove(ctx context.Context, l *live, row Row, algo digest.ProofAlgo, answer []byte) (View, error) {
	if err := s.Tree.CheckPlace(ctx, s.DB, row.Account, row.place()); err != nil {
		return View{}, err // the challenge stays: the client may choose another name first
	}
	match, err := s.match(ctx, row, algo, answer)
	if err != nil {
		return View{}, err
	}
	if match.IsZero() {
		return s.refuse(ctx, l, row)
	}
	return s.link(ctx, l, row, match)
}

// match returns the content that the answer proves possession of, or none.
func (s *Sessions) match(ctx context.Context, row Row, algo digest.ProofAlgo, answer []byte) (drive.BlobID, error) {
	if row.Challenge == nil || row.Challenge.Expired(s.clocks.now()) || row.Size > maxProof { // of an older release: a question about samples
		return drive.BlobID{}, nil
	}
	select {
	case s.provers <- struct{}{}:
		defer func() { <-s.provers }()
	case <-ctx.Done():
		return drive.BlobID{}, drive.Wrap(ctx.Err(), drive.Unavailable, "retry_after", 1)
	}
	for _, id := range row.Challenge.Blobs {
		right, err := s.rightAnswer(ctx, row, id, algo)
		if drive.IsKind(err, drive.NotFound) {
			continue // deleted by its last owner meanwhile
		}
		if err != nil {
			return drive.BlobID{}, err
		}
		if digest.SameAnswer(right, answer) {
			return id, nil
		}
	}
	return drive.BlobID{}, nil
}

func (s *Sessions) rightAnswer(ctx context.Context, row Row, id drive.BlobID, algo digest.ProofAlgo) ([]byte, error) {
	b, err := s.Content.Find(ctx, s.DB, id)
	if err != nil {
		return nil, err
	}
	file, err := s.Store.Open(ctx, b.File)
	if err != nil {
		return nil, err
	}
	right, err := digest.Answer(ctx, file, row.Challenge.Challenge, algo)
	return right, errors.Join(err, file.Close())
}

// refuse uses the challenge up. It was counted when it was asked: this user gets none for this
// content for a day.
func (s *Sessions) refuse(ctx context.Context, l *live, row Row) (View, error) {
	if row.Challenge == nil {
		return s.viewOf(ctx, l, row)
	}
	want := row
	want.Challenge = nil
	next, err := s.commit(ctx, l, row, want, quota.Move{})
	if err != nil {
		return View{}, err
	}
	s.sched.arm(ctx, next)
	return s.viewOf(ctx, l, next)
}

// link is active or parked ⇒ done by content that is there already. Quota is checked again in the transaction, and the
// reference is taken only while somebody else still holds one; else the upload goes on as a normal one.
func (s *Sessions) link(ctx context.Context, l *live, row Row, id drive.BlobID) (View, error) {
	l.close(drive.Fail(drive.WrongState, "state", Done.Public()))
	defer l.open()
	if err := l.drain(ctx, true); err != nil {
		return View{}, err
	}
	if row.State == Active {
		if _, err := s.fence(ctx, l, row); err != nil {
			return View{}, err
		}
	}
	next, err := s.linkDone(ctx, row, id)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return s.refuse(ctx, l, row)
	case clientsFault(err):
		return View{}, err
	case err != nil:
		s.forget(l)
		s.sched.doubt(ctx, row, err)
		return View{}, err
	}
	s.setRow(l, next)
	s.clear(ctx, next)
	return s.view(ctx, s.DB, next)
}

func (s *Sessions) linkDone(ctx context.Context, row Row, id drive.BlobID) (next Row, err error) {
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		move := quota.Move{Finished: row.Size, Reserved: -row.Reserved, Unfinished: -row.Held}
		if err := s.Ledger.Apply(ctx, tx, row.Account, move); err != nil {
			return err
		}
		if err := s.Content.Ref(ctx, tx, id); err != nil {
			return err
		}
		if err := s.giveBackQuestion(ctx, tx, row.User, id); err != nil {
			return err
		}
		linked := row
		linked.Digests = digest.Set{} // a linked claim's digests were not verified here: drop them
		var err error
		next, err = s.placer.done(ctx, tx, linked, id)
		return err
	})
	return next, s.orLost(ctx, row, err)
}

// linkTx is (none) ⇒ done by content that the account owns already. The row stays for as long as
// that of any upload that is done: whoever has its id asks for it, completes it once more, or
// learns how far it has come.
func (s *Sessions) linkTx(ctx context.Context, tx *sqldb.Tx, b Begin, row Row, id drive.BlobID) (View, error) {
	if err := s.Ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: row.Size}); err != nil {
		return View{}, err
	}
	switch err := s.Content.Ref(ctx, tx, id); {
	case drive.IsKind(err, drive.NotFound):
		return View{}, errLost // its last owner has deleted it
	case err != nil:
		return View{}, err
	}
	placed, err := s.placer.place(ctx, tx, row, id)
	if err != nil {
		return View{}, err
	}
	row.State, row.Node, row.Reserved, row.Challenge, row.Ended = Done, placed.Node.ID, 0, nil, s.clocks.now()
	if err := s.placer.emit(ctx, tx, stream.UploadDone, row); err != nil {
		return View{}, err
	}
	return s.insert(ctx, tx, b, row)
}
