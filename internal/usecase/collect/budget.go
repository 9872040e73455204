package collect

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	maxOpen       = 200 // uploads of a link that are not done: an account may have 1,000, its owner's included
	maxOpenSender = 50
	maxOpenLinks  = 500 // of all links of an account: the rest is its owner's

	// maxFiles is how many files may come by a link. They are nodes of its owner, who may have
	// 1,000,000, and empty ones use up nothing else.
	maxFiles = 100_000
)

// totals are what counts of a link (C1).
type totals struct {
	files    int64          // done
	received drive.ByteSize // their bytes
	open     drive.ByteSize // declared by what is not done and not gone
	uploads  int            // how many these are
}

func (t totals) all() drive.ByteSize { return t.received + t.open }

func (t totals) allFiles() int64 { return t.files + int64(t.uploads) }

// with adds what was settled of a link.
func (t totals) with(l Link) totals {
	t.files, t.received = t.files+l.Files, t.received+l.Received
	return t
}

// count makes the sums of a link.
func count(ctx context.Context, q sqldb.Querier, l Link) (totals, error) {
	sums, err := countAll(ctx, q, []drive.CollectID{l.ID})
	return sums[l.ID].with(l), err
}

const countAtOnce = 500 // links that one statement counts for

// countAll makes the sums of what is not settled of links, out of the rows of the uploads. An
// upload whose row was dropped before it was settled had ended; since nobody can say how any more,
// it counts as received. Links without open files are not in the map.
func countAll(ctx context.Context, q sqldb.Querier, links []drive.CollectID) (map[drive.CollectID]totals, error) {
	type counted struct {
		link drive.CollectID
		totals
	}
	sums := map[drive.CollectID]totals{}
	for some := range slices.Chunk(links, countAtOnce) {
		marks, args := sqldb.In(some)
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

// File is a file that a sender sends.
type File struct {
	Upload  drive.UploadID
	Sender  drive.SenderID
	By      string // what the sender calls themselves
	Name    drive.Name
	Size    drive.ByteSize
	Digests digest.Set // declared
	State   State      // Open until it is done
	Node    drive.NodeID
	At      drive.Time
}

// Begun is what beginning an upload came to.
type Begun struct {
	Upload drive.UploadID
	Found  bool // the sender's own, which was open already: it counts, and is not written down, a second time
}

// LetIn is the transaction that begins an upload of f.Size bytes if the link has room for it: begin
// is its effect. It takes the lock on the ledger first. A sender goes on with an upload of theirs
// whether the link has room for another one or not. Errors: Gone {reason}, TooLarge {limit, sent},
// Quota {needed, available} of the link, TooManyOpen, and those of begin.
func (s *Links) LetIn(ctx context.Context, tx *sqldb.Tx, by Sender, f File, begin func() (Begun, error)) error {
	l, err := s.enter(ctx, tx, by)
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
	case full != nil: // and nothing of begin stays
		return full
	case err != nil:
		return err
	}
	f.Upload = got.Upload
	return s.took(ctx, tx, by, f)
}

// enter locks the ledger and reads the link, if it is open.
func (s *Links) enter(ctx context.Context, tx *sqldb.Tx, by Sender) (Link, error) {
	if err := s.opt.Ledger.Lock(ctx, tx, by.link.Account); err != nil {
		return Link{}, err
	}
	l, err := s.Read(ctx, tx, "l.id = ?", by.link.ID)
	if drive.IsKind(err, drive.NotFound) {
		return Link{}, withdrawn()
	}
	if err == nil {
		err = s.closed(ctx, tx, l)
	}
	if err == nil {
		err = settle(ctx, tx, &l)
	}
	return l, err
}

// admit decides whether the link has room for so many bytes more.
func (s *Links) admit(ctx context.Context, tx *sqldb.Tx, by Sender, l Link, size drive.ByteSize) error {
	sum, err := count(ctx, tx, l)
	if err != nil {
		return err
	}
	return s.fits(ctx, tx, by, l, sum, size)
}

func (s *Links) fits(ctx context.Context, tx *sqldb.Tx, by Sender, l Link, sum totals, size drive.ByteSize) error {
	var own, all int
	err := tx.QueryRow(ctx, `SELECT COALESCE(SUM(CASE WHEN c.sender_id = ? THEN 1 ELSE 0 END), 0), COUNT(*)
		FROM collected c JOIN uploads u ON u.id = c.upload_id
		WHERE c.account_id = ? AND c.state = 'open' AND u.state NOT IN ('done', 'gone')`, by.ID, l.Account).Scan(&own, &all)
	switch {
	case err != nil:
		return fmt.Errorf("count the uploads of senders: %w", err)
	case l.MaxFile != nil && size > *l.MaxFile:
		return drive.Fail(drive.TooLarge, "field", "size", "limit", *l.MaxFile, "sent", size)
	case l.MaxBytes != nil && sum.all()+size > *l.MaxBytes:
		return &ExceededError{drive.Fail(drive.Quota, "needed", size, "available", max(0, *l.MaxBytes-sum.all()))}
	case sum.allFiles() >= maxFiles:
		return drive.Fail(drive.TooLarge, "field", "files", "reason", "collect-files", "limit", maxFiles, "sent", sum.allFiles()+1)
	case sum.uploads >= maxOpen:
		return drive.Fail(drive.TooManyOpen, "reason", "collect-uploads", "limit", maxOpen, "sent", sum.uploads+1)
	case all >= maxOpenLinks:
		return drive.Fail(drive.TooManyOpen, "reason", "collect-uploads", "limit", maxOpenLinks, "sent", all+1)
	case own >= maxOpenSender:
		return drive.Fail(drive.TooManyOpen, "reason", "collect-uploads", "limit", maxOpenSender, "sent", own+1)
	case l.MaxBytes == nil:
		return s.leavesRoom(ctx, tx, l.Account, size)
	}
	return nil
}

// ownersShare is the part of an account's room, one of so many, that senders by links without a
// limit leave to its owner: else anybody who knows such a link declares all of it and sends
// nothing.
const ownersShare = 2

// leavesRoom refuses what would make the open uploads by links without a limit more than their
// share of what the account has left. Declared sizes count, not what is reserved: a parked upload
// takes its reservation again.
func (s *Links) leavesRoom(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, size drive.ByteSize) error {
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

// ExceededError is a Quota of the link and not of the account: its numbers may be shown to a
// sender.
type ExceededError struct{ error }

func (e *ExceededError) Unwrap() error { return e.error }

// took writes down what was let in.
func (s *Links) took(ctx context.Context, tx *sqldb.Tx, by Sender, f File) error {
	_, err := tx.Exec(ctx, `INSERT INTO collected (upload_id, collect_id, account_id, sender_id, sender, name, size, digests, state, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'open', ?)`, f.Upload, by.link.ID, by.link.Account, by.ID, by.Name, f.Name, f.Size,
		digestText(f.Digests), s.Now())
	if err != nil {
		return fmt.Errorf("write down upload %s of collect link %s: %w", f.Upload, by.link.ID, err)
	}
	return nil
}
