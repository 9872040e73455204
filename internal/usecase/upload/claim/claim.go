// Package claim is the instant upload: who has content already need not send it. An upload claims
// digests; content that its account owns is linked at once, somebody else's only for who proves to
// have all of it: docs/architecture.md tells why a digest alone must not link. The answer to a
// challenge takes every byte of the content, and a user is asked once a day about one content.
//
// The package finds, asks and checks. To link is a change of state, which is package upload's. It
// owns the table refusals.
package claim

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/turn"
)

// AtOnce is the size of the largest content that is read while its client waits for the reply.
const AtOnce = 64 * drive.MiB

const (
	minInstant  = drive.MiB      // nothing below: small files are guessed too easily, and sent quickly
	refusalTime = 24 * time.Hour // how long one question about a content counts for its user, unless it was answered rightly
	maxProvers  = 2              // contents read at once at a time: 64 MiB each at the most
	maxLater    = 2              // contents read later at a time, of two accounts
	leastBudget = 64 * drive.GiB // what a user may be asked about in a day and not answer rightly
	laterLife   = 10 * time.Minute
)

// errUnwanted reports that the upload no longer waits for the content that is being read.
var errUnwanted = errors.New("the upload has ended or goes on without the answer")

// Challenge is the open question to a claim: single use, bound to one upload by being in its row,
// as JSON.
type Challenge struct {
	digest.Challenge
	Blobs []drive.BlobID `json:"blobs"` // the content that it may turn out to be

	// An answer about content above AtOnce is stored, and checked later.
	Algo   digest.ProofAlgo `json:"algo,omitempty"`
	Answer []byte           `json:"answer,omitempty"`
	Until  drive.Time       `json:"until,omitzero"` // the check has ended by then, or counts no longer
}

// Answered reports whether the question has an answer, which is used up.
func (c *Challenge) Answered() bool { return c != nil && len(c.Answer) > 0 }

// Pending reports whether an answer may still be found right.
func (c *Challenge) Pending(now drive.Time) bool { return c.Answered() && now < c.Until }

// With returns the challenge with an answer, which is to be checked.
func (c *Challenge) With(algo digest.ProofAlgo, answer []byte, size drive.ByteSize, now drive.Time) *Challenge {
	answered := *c
	answered.Algo, answered.Answer, answered.Until = algo, answer, now.Add(laterLife+digest.ReadingTime(int64(size)))
	return &answered
}

// covers reports whether the question is open and about these contents.
func (c *Challenge) covers(blobs []content.Blob, now drive.Time) bool {
	return c != nil && (c.Pending(now) || !c.Answered() && !c.Expired(now)) && slices.Equal(c.Blobs, idsOf(blobs))
}

// Claim is what an upload says of its bytes before they have come.
type Claim struct {
	Account drive.AccountID
	User    drive.UserID
	Size    drive.ByteSize
	Digests digest.Set
	Open    *Challenge // the challenge that the upload has already; nil: none
}

// Offer is the answer to a claim: content to link at once, or a challenge, or neither.
type Offer struct {
	Owned     drive.BlobID
	Challenge *Challenge
	Asks      []content.Blob // what a new challenge asks about; nothing when it is the one that the upload has
}

// Options say whose content may be linked to.
type Options struct {
	Off     func() bool       // nobody's; asked for each claim
	OwnOnly func() bool       // the account's own
	Max     drive.ByteSize    // the largest content of others that is asked about
	Now     func() drive.Time // not nil
}

// Desk answers claims. It is safe for concurrent use.
type Desk struct {
	content content.Inspector
	opt     Options
	provers chan struct{} // holds a token per content that is read at once
	later   *turn.Turns   // of contents that are read later
}

// New returns a Desk for the contents of a store.
func New(contents content.Inspector, opt Options) *Desk {
	return &Desk{content: contents, opt: opt, provers: make(chan struct{}, maxProvers), later: turn.New(1, maxLater)}
}

func idsOf(blobs []content.Blob) []drive.BlobID {
	ids := make([]drive.BlobID, len(blobs))
	for i, b := range blobs {
		ids[i] = b.ID
	}
	return ids
}

// Offer looks for content that has the digests which an upload claims.
func (d *Desk) Offer(ctx context.Context, q sqldb.Querier, c Claim) (Offer, error) {
	if d.opt.Off() || c.Size < minInstant || len(c.Digests) == 0 {
		return Offer{}, nil
	}
	found, err := d.content.Candidates(ctx, q, c.Digests, c.Size)
	if err == nil {
		found, err = d.sound(ctx, found)
	}
	if err != nil {
		return Offer{}, err
	}
	var open []content.Blob
	ownOnly := d.opt.OwnOnly()
	for _, b := range found {
		owned, mine, err := d.owned(ctx, q, c, b)
		switch {
		case err != nil:
			return Offer{}, err
		case mine:
			return Offer{Owned: b.ID}, nil
		case !owned && ownOnly, c.Size > d.opt.Max:
			// not this user's business; or more than the server reads to check an answer
		default:
			open = append(open, b)
		}
	}
	return d.ask(ctx, q, c, open)
}

// owned reports whether the account has the content, and whether a strong digest says that it is
// the one that is claimed, by somebody for whom that does.
func (d *Desk) owned(ctx context.Context, q sqldb.Querier, c Claim, b content.Blob) (owned, mine bool, err error) {
	owned, err = d.content.OwnedBy(ctx, q, c.Account, b.ID)
	if err != nil {
		return false, false, err
	}
	strong, err := d.strongly(ctx, q, b, c.Digests)
	return owned, err == nil && owned && strong && !d.guest(ctx, q, c), err
}

// sound drops the contents whose bytes are lost or damaged: to link to them would be to lose the
// upload. The user sends the bytes instead, and they take the place of the bad ones.
func (d *Desk) sound(ctx context.Context, found []content.Blob) (sound []content.Blob, err error) {
	for _, b := range found {
		ok, err := d.isSound(ctx, b)
		if err != nil {
			return nil, err
		}
		if ok {
			sound = append(sound, b)
		}
	}
	return sound, nil
}

// isSound inspects a content. It reads one whose last scrub is old only if that is done at once.
func (d *Desk) isSound(ctx context.Context, b content.Blob) (bool, error) {
	err := d.content.Inspect(ctx, b, AtOnce)
	if err == nil {
		return true, nil
	}
	if ctx.Err() != nil {
		return false, drive.Wrap(ctx.Err(), drive.Unavailable)
	}
	return false, d.content.Report(ctx, b, err)
}

// Lost reports whether Owned would link content whose bytes are lost or damaged. It must not be
// called within a transaction.
func (d *Desk) Lost(ctx context.Context, q sqldb.Querier, c Claim) (bool, error) {
	id, err := d.Owned(ctx, q, c)
	if err != nil || id.IsZero() {
		return false, err
	}
	b, err := d.content.Find(ctx, q, id)
	if drive.IsKind(err, drive.NotFound) { // released meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ok, err := d.isSound(ctx, b)
	return !ok, err
}

// Owned is Offer of content that the account owns, and asks about no other; zero: there is none. It
// does not look at bytes: see Lost.
func (d *Desk) Owned(ctx context.Context, q sqldb.Querier, c Claim) (drive.BlobID, error) {
	if d.opt.Off() || c.Size < minInstant || len(c.Digests) == 0 {
		return drive.BlobID{}, nil
	}
	found, err := d.content.Candidates(ctx, q, c.Digests, c.Size)
	if err != nil {
		return drive.BlobID{}, err
	}
	for _, b := range found {
		if _, mine, err := d.owned(ctx, q, c, b); mine || err != nil {
			return b.ID, err
		}
	}
	return drive.BlobID{}, nil
}

// guest reports whether the account is not the user's own. A guest need not see all that it has: a
// digest does not do for them.
func (d *Desk) guest(ctx context.Context, q sqldb.Querier, c Claim) bool {
	var other int
	err := q.QueryRow(ctx, `SELECT 1 FROM users WHERE id = ? AND account_id <> ?`, c.User, c.Account).Scan(&other)
	return !drive.IsKind(err, drive.NotFound)
}

func (d *Desk) strongly(ctx context.Context, q sqldb.Querier, b content.Blob, claim digest.Set) (bool, error) {
	known, err := d.content.Aliases(ctx, q, b.ID)
	return known.SameContent(claim), err
}

// ask returns the question that is open already, so that a repeated claim asks nothing new, or
// makes one about the contents that the user has not been asked about today.
func (d *Desk) ask(ctx context.Context, q sqldb.Querier, c Claim, blobs []content.Blob) (Offer, error) {
	if c.Open.covers(blobs, d.opt.Now()) {
		return Offer{Challenge: c.Open}, nil
	}
	var fresh []content.Blob
	for _, b := range blobs {
		asked, err := d.wasAsked(ctx, q, c.User, b)
		if err != nil {
			return Offer{}, err
		}
		if !asked {
			fresh = append(fresh, b)
		}
	}
	if len(fresh) == 0 {
		return Offer{}, nil
	}
	spent, err := d.spent(ctx, q, c.User)
	if err != nil || spent+c.Size*drive.ByteSize(len(fresh)) > d.budget() {
		return Offer{}, err
	}
	question, err := digest.NewChallenge(rand.Reader, int64(c.Size), d.opt.Now())
	if err != nil {
		return Offer{}, err
	}
	return Offer{Challenge: &Challenge{Challenge: question, Blobs: idsOf(fresh)}, Asks: fresh}, nil
}

// Match returns the content that the answer proves possession of, or none. It reads content of at
// most AtOnce.
func (d *Desk) Match(ctx context.Context, q sqldb.Querier, c Claim, algo digest.ProofAlgo, answer []byte) (drive.BlobID, error) {
	if c.Open == nil || c.Open.Expired(d.opt.Now()) || c.Size > AtOnce {
		return drive.BlobID{}, nil
	}
	select {
	case d.provers <- struct{}{}:
		defer func() { <-d.provers }()
	case <-ctx.Done():
		return drive.BlobID{}, drive.Wrap(ctx.Err(), drive.Unavailable, "retry_after", 1)
	}
	return d.match(ctx, q, c, algo, answer, nil)
}

// MatchLater is Match for the answer that is stored in the challenge, to content of any size. It
// reads slowly, in turns of the accounts, and asks every few seconds whether the answer is still
// wanted.
func (d *Desk) MatchLater(ctx context.Context, q sqldb.Querier, c Claim, wanted func(context.Context) bool) (drive.BlobID, error) {
	end, err := d.later.Take(ctx, c.Account)
	if err != nil {
		return drive.BlobID{}, err
	}
	defer end()
	if !wanted(ctx) {
		return drive.BlobID{}, errUnwanted
	}
	return d.match(ctx, q, c, c.Open.Algo, c.Open.Answer, wanted)
}

func (d *Desk) match(ctx context.Context, q sqldb.Querier, c Claim, algo digest.ProofAlgo, answer []byte, wanted func(context.Context) bool) (drive.BlobID, error) {
	if !c.Open.AsksAll(int64(c.Size)) { // of an older release: a question about samples
		return drive.BlobID{}, nil
	}
	for _, id := range c.Open.Blobs {
		right, err := d.rightAnswer(ctx, q, c, id, algo, wanted)
		if drive.IsKind(err, drive.NotFound) {
			continue // deleted by its last owner meanwhile, or lost
		}
		if content.Unreadable(err) {
			continue // as if the answer were wrong: the user sends the bytes
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

func (d *Desk) rightAnswer(ctx context.Context, q sqldb.Querier, c Claim, id drive.BlobID, algo digest.ProofAlgo, wanted func(context.Context) bool) ([]byte, error) {
	b, err := d.content.Find(ctx, q, id)
	if err != nil {
		return nil, err
	}
	file, err := d.content.Store.Open(ctx, b.File)
	if err != nil {
		return nil, err
	}
	src := io.ReaderAt(file)
	if wanted != nil {
		src = &slowReader{src: file, ctx: ctx, wanted: wanted}
	}
	right, err := digest.Answer(ctx, src, c.Open.Challenge, algo)
	return right, errors.Join(err, file.Close())
}

// slowReader reads in half of the time: it pauses before each read for as long as the last one and
// the work on its bytes took, so that requests come first.
type slowReader struct {
	src    io.ReaderAt
	ctx    context.Context //nolint:containedctx // of one reading
	wanted func(context.Context) bool
	began  time.Time // of the last read
	looked time.Time // when wanted was last asked
}

const (
	lookAgain    = 5 * time.Second
	longestPause = time.Second
)

// ReadAt implements io.ReaderAt.
func (r *slowReader) ReadAt(p []byte, off int64) (int, error) {
	if now := time.Now(); !r.began.IsZero() {
		pause := time.NewTimer(min(now.Sub(r.began), longestPause))
		select {
		case <-pause.C:
		case <-r.ctx.Done():
			pause.Stop()
			return 0, r.ctx.Err()
		}
	}
	r.began = time.Now()
	if r.looked.IsZero() {
		r.looked = r.began
	}
	if r.began.Sub(r.looked) > lookAgain {
		if r.looked = r.began; !r.wanted(r.ctx) {
			return 0, errUnwanted
		}
	}
	return r.src.ReadAt(p, off)
}
