package collect

import (
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	maxOpen       = 200 // unfinished uploads per link; an account may have 1,000 including its owner's
	maxOpenSender = 50  // unfinished uploads per sender
	maxOpenLinks  = 500 // unfinished uploads of all links of an account; the rest is reserved for its owner

	// maxFiles is the most files that a link accepts. They count toward the 1,000,000 nodes of
	// its owner, and empty files use up no other limit.
	maxFiles = 100_000
)

// totals are the amounts that count against a link (C1).
type totals struct {
	files    int64          // finished files
	received drive.ByteSize // bytes of finished files
	open     drive.ByteSize // declared bytes of unfinished uploads
	uploads  int            // number of unfinished uploads
}

// bytes returns the bytes that count against the link.
func (t totals) bytes() drive.ByteSize { return t.received + t.open }

// fileCount returns the files that count against the link.
func (t totals) fileCount() int64 { return t.files + int64(t.uploads) }

// plus returns t plus the amounts that were already moved into the link's row.
func (t totals) plus(l Link) totals {
	t.files, t.received = t.files+l.Files, t.received+l.Received
	return t
}

// count returns the totals of a link: its open files and those that the link's row has settled.
func count(ctx context.Context, q sqldb.Querier, l Link) (totals, error) {
	sums, err := countAll(ctx, q, []drive.CollectID{l.ID})
	return sums[l.ID].plus(l), err
}

const countAtOnce = 500 // links per statement

// countAll returns the totals of links without the amounts in their rows, computed from the
// uploads. An upload whose row was deleted before settle saw it counts as received, because its end
// is unknown. Links without open files are missing in the map.
func countAll(ctx context.Context, q sqldb.Querier, links []drive.CollectID) (map[drive.CollectID]totals, error) {
	type counted struct {
		link drive.CollectID
		totals
	}
	sums := map[drive.CollectID]totals{}
	for some := range slices.Chunk(links, countAtOnce) {
		marks, args := sqldb.ListArgs(some)
		rows, err := q.Query(ctx, `SELECT link, SUM(ended), SUM(ended * size), SUM((1 - ended) * size), SUM(1 - ended) FROM (
			SELECT c.collect_id AS link, c.size AS size, CASE WHEN u.state IS NULL OR u.state = 'done' THEN 1 ELSE 0 END AS ended
			FROM collected c LEFT JOIN uploads u ON u.id = c.upload_id
			WHERE c.collect_id IN (`+marks+`) AND c.state = 'open' AND (u.state IS NULL OR u.state <> 'gone')) AS alive GROUP BY link`, args...)
		all, err := sqldb.Scan(rows, err, func(c *counted, scan func(...any) error) error {
			return scan(&c.link, &c.files, &c.received, &c.open, &c.uploads)
		})
		if err != nil {
			return nil, fmt.Errorf("count what came by %d collect links: %w", len(links), err)
		}
		for _, c := range all {
			sums[c.link] = c.totals
		}
	}
	return sums, nil
}

// File is a file that a sender sends, as recorded when its upload began.
type File struct {
	Upload     drive.UploadID
	Sender     drive.SenderID
	SenderName string // name that the sender entered
	Name       drive.Name
	Size       drive.ByteSize
	Digests    digest.Set // declared
	State      State      // Open, or "done"
	Node       drive.NodeID
	At         drive.Time
}

// BeginResult is the result of the function that BeginUpload calls to begin the upload.
type BeginResult struct {
	Upload drive.UploadID
	Found  bool // the upload is an open one of the sender, already counted and recorded
}

// BeginUpload runs begin within tx if the link accepts an upload of f.Size bytes, and records the
// upload. It locks the ledger first. A sender may continue an open upload even if the link is full.
// Errors: Gone {reason}, TooLarge {limit, sent}, Quota {needed, available} of the link
// (ExceededError), TooManyOpen, and those of begin.
func (s *Links) BeginUpload(ctx context.Context, tx *sqldb.Tx, by Sender, f File, begin func() (BeginResult, error)) error {
	l, err := s.lockLink(ctx, tx, by)
	if err != nil {
		return err
	}
	full := s.admit(ctx, tx, by, l, f.Size)
	if full != nil && !drive.IsKind(full, drive.Quota, drive.TooLarge, drive.TooManyOpen) {
		return full
	}
	got, err := begin()
	switch {
	case err == nil && got.Found:
		return nil
	case full != nil: // the caller rolls back begin's effect
		return full
	case err != nil:
		return err
	}
	f.Upload = got.Upload
	return s.record(ctx, tx, by, f)
}

// lockLink locks the ledger within tx, settles the link's finished files and returns the link. It
// returns Gone {reason} if the link is deleted or closed.
func (s *Links) lockLink(ctx context.Context, tx *sqldb.Tx, by Sender) (Link, error) {
	if err := s.opt.Ledger.Lock(ctx, tx, by.link.Account); err != nil {
		return Link{}, err
	}
	l, err := s.Read(ctx, tx, "l.id = ?", by.link.ID)
	if drive.IsKind(err, drive.NotFound) {
		return Link{}, errWithdrawn()
	}
	if err == nil {
		err = s.closed(ctx, tx, l)
	}
	if err == nil {
		err = settle(ctx, tx, &l)
	}
	return l, err
}

// admit returns the error that refuses an upload of size bytes for which the link or the account
// has no room. It reserves nothing: it holds while tx holds the lock.
func (s *Links) admit(ctx context.Context, tx *sqldb.Tx, by Sender, l Link, size drive.ByteSize) error {
	sum, err := count(ctx, tx, l)
	if err != nil {
		return err
	}
	return s.checkLimits(ctx, tx, by, l, sum, size)
}

// checkLimits returns the error that refuses an upload of size bytes by a sender, given the link's
// totals: TooLarge, Quota (ExceededError if it is the link's) or TooManyOpen. nil: there is room.
func (s *Links) checkLimits(ctx context.Context, tx *sqldb.Tx, by Sender, l Link, sum totals, size drive.ByteSize) error {
	var own, all int
	err := tx.QueryRow(ctx, `SELECT COALESCE(SUM(CASE WHEN c.sender_id = ? THEN 1 ELSE 0 END), 0), COUNT(*)
		FROM collected c JOIN uploads u ON u.id = c.upload_id
		WHERE c.account_id = ? AND c.state = 'open' AND u.state NOT IN ('done', 'gone')`, by.ID, l.Account).Scan(&own, &all)
	switch {
	case err != nil:
		return fmt.Errorf("count the uploads of senders: %w", err)
	case l.MaxFile != nil && size > *l.MaxFile:
		return drive.Fail(drive.TooLarge, "field", "size", "limit", *l.MaxFile, "sent", size)
	case l.MaxBytes != nil && sum.bytes()+size > *l.MaxBytes:
		return &ExceededError{drive.Fail(drive.Quota, "needed", size, "available", max(0, *l.MaxBytes-sum.bytes()))}
	case sum.fileCount() >= maxFiles:
		return drive.Fail(drive.TooLarge, "field", "files", "reason", "collect-files", "limit", maxFiles, "sent", sum.fileCount()+1)
	case sum.uploads >= maxOpen:
		return drive.Fail(drive.TooManyOpen, "reason", "collect-uploads", "limit", maxOpen, "sent", sum.uploads+1)
	case all >= maxOpenLinks:
		return drive.Fail(drive.TooManyOpen, "reason", "collect-uploads", "limit", maxOpenLinks, "sent", all+1)
	case own >= maxOpenSender:
		return drive.Fail(drive.TooManyOpen, "reason", "collect-uploads", "limit", maxOpenSender, "sent", own+1)
	case l.MaxBytes == nil:
		return s.checkOwnersShare(ctx, tx, l.Account, size)
	}
	return nil
}

// ownersShare is the divisor of the account's free space that links without a limit may fill. The
// rest stays for the owner; otherwise a sender could declare all of it and send nothing.
const ownersShare = 2

// checkOwnersShare returns Quota if unfinished uploads by links without a limit would exceed their
// share of the account's free space. Declared sizes count, because a parked upload reserves its
// size again.
func (s *Links) checkOwnersShare(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, size drive.ByteSize) error {
	balance, err := s.opt.Ledger.Get(ctx, tx, account)
	if err != nil || balance.Total == nil {
		return err
	}
	var declared, charged drive.ByteSize
	err = tx.QueryRow(ctx, `SELECT COALESCE(SUM(c.size), 0), COALESCE(SUM(u.reserved + u.held), 0)
		FROM collected c JOIN uploads u ON u.id = c.upload_id JOIN collects l ON l.id = c.collect_id
		WHERE c.account_id = ? AND c.state = 'open' AND u.state NOT IN ('done', 'gone') AND l.max_bytes IS NULL`, account).Scan(&declared, &charged)
	if err != nil {
		return fmt.Errorf("sum what senders have declared: %w", err)
	}
	share := (balance.Available() + charged) / ownersShare
	if declared+size > share {
		return drive.Fail(drive.Quota, "needed", size, "available", max(0, share-declared))
	}
	return nil
}

// ExceededError is a Quota error of the link, not of the account: a sender may see its numbers.
type ExceededError struct{ error }

// Unwrap returns the error that clients get.
func (e *ExceededError) Unwrap() error { return e.error }

// record inserts within tx the row of an accepted upload in state open, with the sender by. It
// charges nothing.
func (s *Links) record(ctx context.Context, tx *sqldb.Tx, by Sender, f File) error {
	_, err := tx.Exec(ctx, `INSERT INTO collected (upload_id, collect_id, account_id, sender_id, sender, name, size, digests, state, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'open', ?)`, f.Upload, by.link.ID, by.link.Account, by.ID, by.Name, f.Name, f.Size,
		digestText(f.Digests), s.Now())
	if err != nil {
		return fmt.Errorf("write down upload %s of collect link %s: %w", f.Upload, by.link.ID, err)
	}
	return nil
}
