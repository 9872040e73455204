package ingest

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/instance/lease"
	"smartdrive/internal/engine/sqldb"
)

// candidates is how many bundles that are due are tried: others may be taking the first ones just
// now.
const candidates = 8

// queue says who works on which bundle, and how a try ended.
type queue struct{ *ground }

// claim takes the first bundle that is due under the next epoch; nil: there is none.
func (in *queue) claim(ctx context.Context) (*row, error) {
	now, err := in.now(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := in.opt.DB.Query(ctx, `SELECT id FROM bundles WHERE state IN ('sealed', 'running') AND due_at <= ? ORDER BY due_at, id LIMIT ?`,
		now, candidates)
	ids, err := sqldb.Scan(rows, err, func(id *drive.BundleID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, fmt.Errorf("look for bundles that are due: %w", err)
	}
	for _, id := range ids {
		if b, err := in.claimOne(ctx, id, now); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

func (in *queue) claimOne(ctx context.Context, id drive.BundleID, now drive.Time) (taken *row, err error) {
	err = in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		taken = nil
		n, err := tx.Exec(ctx, `UPDATE bundles SET state = 'running', epoch = epoch + 1, worker = ?, due_at = ?, tries = tries + 1,
			attempts = attempts + 1 WHERE id = ? AND state IN ('sealed', 'running') AND due_at <= ?`,
			in.opt.Instance, now.Add(lease.TTL), id, now)
		if err != nil || n == 0 {
			return err
		}
		b, err := in.find(ctx, tx, "WHERE id = ?", id)
		taken = &b
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim bundle %s: %w", id, err)
	}
	return taken, nil
}

// update changes the row of a bundle that this worker has, or is lease.ErrFenced (K4).
func (b *row) update(ctx context.Context, tx *sqldb.Tx, set string, args ...any) error {
	n, err := tx.Exec(ctx, "UPDATE bundles SET "+set+" WHERE id = ? AND epoch = ? AND state = 'running'", append(args, b.ID, b.Epoch)...)
	if err != nil {
		return fmt.Errorf("update bundle %s: %w", b.ID, err)
	}
	if n == 0 {
		return lease.ErrFenced
	}
	return nil
}

func (in *queue) beat(ctx context.Context, b *row) (bool, error) {
	now, err := in.now(ctx)
	if err != nil {
		return false, err
	}
	return false, in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "due_at = ?", now.Add(lease.TTL))
	})
}

// pauseFor grows from 5 s to maxPause.
func pauseFor(tries int64) time.Duration {
	return min(5*time.Second<<min(max(tries-1, 0), 10), maxPause)
}

// giveBack leaves a bundle to whoever looks after the pause. tries: how many of them count from now
// on.
func (in *queue) giveBack(ctx context.Context, b *row, pause time.Duration, tries int64, reason, detail string) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	return in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'sealed', epoch = epoch + 1, due_at = ?, tries = ?, reason = ?, detail = ?",
			now.Add(pause), tries, reason, clip(detail, maxDetail))
	})
}

// end writes that nothing is left to do; the CHECK of the table looks at the counts (K2).
func (in *queue) end(ctx context.Context, b *row) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	return in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'done', epoch = epoch + 1, due_at = 0, tries = 0, reason = '', detail = '', ended_at = ?", now)
	})
}

// reject ends a bundle that cannot be taken in (K5). What is left of it counts as rejected, in one
// record.
func (in *queue) reject(ctx context.Context, b *row, why *refusal) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	return in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := b.update(ctx, tx, "due_at = ?", now); err != nil {
			return err
		}
		fresh, err := in.find(ctx, tx, "WHERE id = ?", b.ID) // the reply to the last batch may have been lost
		if err != nil {
			return err
		}
		left := fresh.left()
		if left > 0 {
			last := []item{{member: fresh.Save.member + 1, index: fresh.Save.index, outcome: Reject, reason: why.reason, counts: left}}
			if err := insertRecords(ctx, tx, b.ID, last); err != nil {
				return err
			}
			if in.opt.Events != nil {
				record, err := in.tellRefused(b, last[0])
				if err != nil {
					return err
				}
				if err := in.opt.Events.Append(ctx, tx, record); err != nil {
					return err
				}
			}
		}
		return b.update(ctx, tx, `state = 'rejected', epoch = epoch + 1, due_at = 0, tries = 0, rejected = rejected + ?, reason = ?, detail = ?,
			ended_at = ?`, left, why.reason, clip(why.detail, maxDetail), now)
	})
}

// maxDetail is the longest text for people, bytes.
const maxDetail = 1000

// clip cuts a text at a character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most]
}
