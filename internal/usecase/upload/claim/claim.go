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
	"slices"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

const (
	minInstant  = drive.MiB      // nothing below: small files are guessed too easily, and sent quickly
	maxProof    = 64 * drive.MiB // the largest content that is asked for, since the answer takes all of it
	refusalTime = 24 * time.Hour // how long one question about a content counts for its user, unless it was answered rightly
	maxProvers  = 2              // proofs read at a time: 64 MiB each at the most
)

// Challenge is the open question to a claim: single use, bound to one upload by being in its row,
// as JSON.
type Challenge struct {
	digest.Challenge
	Blobs []drive.BlobID `json:"blobs"` // the content that it may turn out to be
}

// covers reports whether the question is open and about these contents.
func (c *Challenge) covers(blobs []content.Blob, now drive.Time) bool {
	return c != nil && !c.Expired(now) && slices.Equal(c.Blobs, idsOf(blobs))
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
	Now     func() drive.Time // not nil
}

// Desk answers claims. It is safe for concurrent use.
type Desk struct {
	content content.Content
	store   blob.Store
	opt     Options
	provers chan struct{} // holds a token per proof being read
}

// New returns a Desk for the contents of a store.
func New(contents content.Content, store blob.Store, opt Options) *Desk {
	return &Desk{content: contents, store: store, opt: opt, provers: make(chan struct{}, maxProvers)}
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
		case !owned && ownOnly, c.Size > maxProof:
			// not this user's business; or more than the server would read to check an answer
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

// Owned is Offer of content that the account owns, and asks about no other; zero: there is none.
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
	question, err := digest.NewChallenge(rand.Reader, int64(c.Size), d.opt.Now())
	if err != nil {
		return Offer{}, err
	}
	return Offer{Challenge: &Challenge{Challenge: question, Blobs: idsOf(fresh)}, Asks: fresh}, nil
}

// Match returns the content that the answer proves possession of, or none.
func (d *Desk) Match(ctx context.Context, q sqldb.Querier, c Claim, algo digest.ProofAlgo, answer []byte) (drive.BlobID, error) {
	if c.Open == nil || c.Open.Expired(d.opt.Now()) || c.Size > maxProof { // of an older release: a question about samples
		return drive.BlobID{}, nil
	}
	select {
	case d.provers <- struct{}{}:
		defer func() { <-d.provers }()
	case <-ctx.Done():
		return drive.BlobID{}, drive.Wrap(ctx.Err(), drive.Unavailable, "retry_after", 1)
	}
	for _, id := range c.Open.Blobs {
		right, err := d.rightAnswer(ctx, q, c, id, algo)
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

func (d *Desk) rightAnswer(ctx context.Context, q sqldb.Querier, c Claim, id drive.BlobID, algo digest.ProofAlgo) ([]byte, error) {
	b, err := d.content.Find(ctx, q, id)
	if err != nil {
		return nil, err
	}
	file, err := d.store.Open(ctx, b.File)
	if err != nil {
		return nil, err
	}
	right, err := digest.Answer(ctx, file, c.Open.Challenge, algo)
	return right, errors.Join(err, file.Close())
}
