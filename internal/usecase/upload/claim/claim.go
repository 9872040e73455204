// Package claim decides instant uploads: whether content that the installation already has may be
// linked instead of sent. An upload claims digests. Content that its account owns is linked at
// once; content of another account only if the user proves to have all of its bytes.
// docs/architecture.md explains why a digest alone must not suffice. Each challenge covers every
// byte of the content, and a user gets at most one per content and day.
//
// The package finds content, issues challenges and checks answers; package upload does the linking.
// It owns the table refusals.
package claim

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/turn"
)

// MaxImmediate is the size up to which CheckAnswer reads content while the client waits for the
// reply.
const MaxImmediate = 64 * drive.MiB

const (
	minSize    = drive.MiB        // smaller content is easily guessed and quickly sent
	countTime  = 24 * time.Hour   // a challenge counts against its user for this long, unless answered rightly
	maxProvers = 2                // contents read at once by CheckAnswer: 64 MiB each at most
	maxLater   = 2                // contents read at once by CheckStoredAnswer, of different accounts
	minBudget  = 64 * drive.GiB   // smallest value of budget
	checkTime  = 10 * time.Minute // time allowed for the check of a stored answer, besides reading
)

// errUnwanted reports that the upload no longer waits for the content being read.
var errUnwanted = errors.New("the upload has ended or goes on without the answer")

// Challenge is the open possession challenge of an upload. It is single-use and stored in the
// upload's row as JSON.
type Challenge struct {
	digest.Challenge
	Blobs []drive.BlobID `json:"blobs"` // candidate contents

	// The answer, stored if the content is larger than MaxImmediate, and checked later by
	// CheckStoredAnswer.
	Algo   digest.ProofAlgo `json:"algo,omitempty"`
	Answer []byte           `json:"answer,omitempty"`
	Until  drive.Time       `json:"until,omitzero"` // a check after this time does not count
}

// Answered reports whether an answer is stored. A challenge accepts one answer only. A nil c
// returns false.
func (c *Challenge) Answered() bool { return c != nil && len(c.Answer) > 0 }

// Pending reports whether an answer is stored and the time for its check has not passed; after that
// the answer no longer counts. A nil c returns false.
func (c *Challenge) Pending(now drive.Time) bool { return c.Answered() && now < c.Until }

// WithAnswer returns a copy of the challenge with an answer to be checked by CheckStoredAnswer.
// size is the size of the content and extends the time allowed.
func (c *Challenge) WithAnswer(algo digest.ProofAlgo, answer []byte, size drive.ByteSize, now drive.Time) *Challenge {
	answered := *c
	answered.Algo, answered.Answer, answered.Until = algo, answer, now.Add(checkTime+digest.ReadingTime(int64(size)))
	return &answered
}

// covers reports whether the challenge is still open, or its answer unchecked, and about exactly
// these contents in this order. A nil c returns false.
func (c *Challenge) covers(blobs []content.Blob, now drive.Time) bool {
	return c != nil && (c.Pending(now) || !c.Answered() && !c.Expired(now)) && slices.Equal(c.Blobs, idsOf(blobs))
}

// Claim describes the content that an upload says it will send.
type Claim struct {
	Account   drive.AccountID
	User      drive.UserID
	Size      drive.ByteSize
	Digests   digest.Set
	Challenge *Challenge // the upload's current challenge; nil: none
}

// Offer is the response to a claim: content to link at once, a challenge, or neither (both zero).
type Offer struct {
	Owned      drive.BlobID
	Challenge  *Challenge
	Challenged []content.Blob // contents that a new challenge asks about; empty if Challenge was open before
}

// Options say whose content may be linked.
type Options struct {
	Disabled func() bool       // true: no content at all; called for each claim
	OwnOnly  func() bool       // true: only content of the claiming account
	MaxSize  drive.ByteSize    // largest content of other accounts that is asked about
	Now      func() drive.Time // required
}

// Claims decides which stored content an upload may link instead of sending it, and checks the
// answers to its challenges. It is safe for concurrent use.
type Claims struct {
	content content.Inspector
	opt     Options
	provers chan struct{} // holds a token per content that CheckAnswer reads
	later   *turn.Limiter // limits the contents that CheckStoredAnswer reads
}

// New returns a Claims for the contents of a store.
func New(contents content.Inspector, opt Options) *Claims {
	return &Claims{content: contents, opt: opt, provers: make(chan struct{}, maxProvers), later: turn.New(1, maxLater)}
}

// idsOf returns the ids of blobs.
func idsOf(blobs []content.Blob) []drive.BlobID {
	ids := make([]drive.BlobID, len(blobs))
	for i, b := range blobs {
		ids[i] = b.ID
	}
	return ids
}

// Offer looks for stored content with the claimed digests and returns what the upload may do with
// it. Small content and damaged content are never offered.
func (d *Claims) Offer(ctx context.Context, q sqldb.Querier, c Claim) (Offer, error) {
	if d.opt.Disabled() || c.Size < minSize || len(c.Digests) == 0 {
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
		case !owned && ownOnly, c.Size > d.opt.MaxSize:
			// not allowed by OwnOnly, or too large to read for checking an answer
		default:
			open = append(open, b)
		}
	}
	return d.challenge(ctx, q, c, open)
}

// owned reports whether the account references the content, and whether it may link the content at
// once (mine): a strong digest matches and the user is not a guest of the account.
func (d *Claims) owned(ctx context.Context, q sqldb.Querier, c Claim, b content.Blob) (owned, mine bool, err error) {
	owned, err = d.content.OwnedBy(ctx, q, c.Account, b.ID)
	if err != nil {
		return false, false, err
	}
	strong, err := d.matchesStrong(ctx, q, b, c.Digests)
	return owned, err == nil && owned && strong && !d.guest(ctx, q, c), err
}

// sound drops contents whose bytes are lost or damaged, because linking them would lose the upload.
// The client sends the bytes instead, and they replace the damaged ones.
func (d *Claims) sound(ctx context.Context, found []content.Blob) (sound []content.Blob, err error) {
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

// isSound inspects a content's bytes and reports damage. It reads content whose last scrub is old
// only up to MaxImmediate.
func (d *Claims) isSound(ctx context.Context, b content.Blob) (bool, error) {
	err := d.content.Inspect(ctx, b, MaxImmediate)
	if err == nil {
		return true, nil
	}
	if ctx.Err() != nil {
		return false, drive.Wrap(ctx.Err(), drive.Unavailable)
	}
	return false, d.content.Report(ctx, b, err)
}

// IsDamaged reports whether Owned would return content whose bytes are lost or damaged. It must not
// be called within a transaction.
func (d *Claims) IsDamaged(ctx context.Context, q sqldb.Querier, c Claim) (bool, error) {
	id, err := d.Owned(ctx, q, c)
	if err != nil || id.IsZero() {
		return false, err
	}
	b, err := d.content.Find(ctx, q, id)
	if drive.IsKind(err, drive.NotFound) { // released by a concurrent request
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ok, err := d.isSound(ctx, b)
	return !ok, err
}

// Owned returns the content that the account may link at once; zero: none. It does not inspect
// bytes: see IsDamaged.
func (d *Claims) Owned(ctx context.Context, q sqldb.Querier, c Claim) (drive.BlobID, error) {
	if d.opt.Disabled() || c.Size < minSize || len(c.Digests) == 0 {
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

// guest reports whether the account is not the user's own. Guests may not see all files of the
// account, so a digest does not suffice for them. On a query error it returns true.
func (d *Claims) guest(ctx context.Context, q sqldb.Querier, c Claim) bool {
	var other int
	err := q.QueryRow(ctx, `SELECT 1 FROM users WHERE id = ? AND account_id <> ?`, c.User, c.Account).Scan(&other)
	return !drive.IsKind(err, drive.NotFound)
}

// matchesStrong reports whether a strong digest of the claim is known of the content. Two digests
// of one algorithm that differ make it false.
func (d *Claims) matchesStrong(ctx context.Context, q sqldb.Querier, b content.Blob, claim digest.Set) (bool, error) {
	known, err := d.content.Aliases(ctx, q, b.ID)
	return known.SameContent(claim), err
}

// challenge returns the open challenge if it covers blobs. Otherwise it creates one about those
// contents that do not count against the user yet; an empty Offer if there are none or the user's
// budget is spent.
func (d *Claims) challenge(ctx context.Context, q sqldb.Querier, c Claim, blobs []content.Blob) (Offer, error) {
	if c.Challenge.covers(blobs, d.opt.Now()) {
		return Offer{Challenge: c.Challenge}, nil
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
	return Offer{Challenge: &Challenge{Challenge: question, Blobs: idsOf(fresh)}, Challenged: fresh}, nil
}

// CheckAnswer returns the content that the answer proves possession of; zero: none. It reads
// content of at most MaxImmediate and returns zero for larger content.
func (d *Claims) CheckAnswer(ctx context.Context, q sqldb.Querier, c Claim, algo digest.ProofAlgo, answer []byte) (drive.BlobID, error) {
	if c.Challenge == nil || c.Challenge.Expired(d.opt.Now()) || c.Size > MaxImmediate {
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

// CheckStoredAnswer returns the content that the answer stored in the challenge proves possession
// of; zero: none. The content may have any size. CheckStoredAnswer reads slowly, in turns of the
// accounts, and polls wanted every few seconds. If that returns false it fails with errUnwanted.
func (d *Claims) CheckStoredAnswer(ctx context.Context, q sqldb.Querier, c Claim, wanted func(context.Context) bool) (drive.BlobID, error) {
	end, err := d.later.Acquire(ctx, c.Account)
	if err != nil {
		return drive.BlobID{}, err
	}
	defer end()
	if !wanted(ctx) {
		return drive.BlobID{}, errUnwanted
	}
	return d.match(ctx, q, c, c.Challenge.Algo, c.Challenge.Answer, wanted)
}

// match returns the first candidate content of the challenge for which answer is right; a zero id
// means that it is right for none. It skips contents that are missing or unreadable. Other errors
// of reading are returned, among them errUnwanted once wanted returns false.
func (d *Claims) match(ctx context.Context, q sqldb.Querier, c Claim, algo digest.ProofAlgo, answer []byte, wanted func(context.Context) bool) (drive.BlobID, error) {
	if !c.Challenge.CoversAll(int64(c.Size)) { // a challenge about samples, issued by an older release
		return drive.BlobID{}, nil
	}
	for _, id := range c.Challenge.Blobs {
		right, err := d.rightAnswer(ctx, q, c, id, algo, wanted)
		if drive.IsKind(err, drive.NotFound) {
			continue // lost, or deleted by its last owner
		}
		if content.Unreadable(err) {
			continue // treated as a wrong answer: the client sends the bytes
		}
		if err != nil {
			return drive.BlobID{}, err
		}
		if digest.EqualAnswers(right, answer) {
			return id, nil
		}
	}
	return drive.BlobID{}, nil
}

// rightAnswer reads a content and returns the right answer to c's challenge about it. It returns
// NotFound if the content is gone. A non-nil wanted makes it read slowly and return errUnwanted
// once wanted returns false.
func (d *Claims) rightAnswer(ctx context.Context, q sqldb.Querier, c Claim, id drive.BlobID, algo digest.ProofAlgo, wanted func(context.Context) bool) ([]byte, error) {
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
	right, err := digest.Answer(ctx, src, c.Challenge.Challenge, algo)
	return right, errors.Join(err, file.Close())
}

// slowReader reads at half speed, so that requests come first: before each read it pauses as long
// as the previous read and its processing took.
type slowReader struct {
	src    io.ReaderAt
	ctx    context.Context //nolint:containedctx // of one reading
	wanted func(context.Context) bool
	began  time.Time // start of the last read
	looked time.Time // when wanted was last called
}

const (
	// pollWanted is the time between two calls of wanted while a content is read.
	pollWanted = 5 * time.Second
	// longestPause bounds the pause before a read; a pause is as long as the previous read took.
	longestPause = time.Second
)

// ReadAt reads from src as an io.ReaderAt. Before each read but the first it pauses for as long as
// the previous one took, a second at most. It returns errUnwanted once wanted returns false, and
// the error of ctx if ctx ends during a pause.
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
	if r.began.Sub(r.looked) > pollWanted {
		if r.looked = r.began; !r.wanted(r.ctx) {
			return 0, errUnwanted
		}
	}
	return r.src.ReadAt(p, off)
}
