package ingest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/instance/lease"
	"example.org/smartdrive/internal/engine/sqldb"
)

// candidates is the number of due bundles that a claim tries, because other workers may be claiming
// the first ones.
const candidates = 8

// maxLooks is the number of accounts that a claim looks at in the order of turns.
const maxLooks = 50

// turnSlice is the time after which a bundle lets other accounts go first.
const turnSlice = 20 * time.Second

// queue claims bundles for workers, and records how each attempt at a bundle ends. Accounts take
// turns, see docs/decisions/0190-bundles-take-turns.md.
type queue struct {
	*core
	turns sync.Mutex      // guards last
	last  drive.AccountID // account that the turns of this process have reached
}

// claim claims a due bundle under a new epoch and a lease of lease.TTL. It takes one of the next
// account that has a due bundle and no running one; if there is none, of the next account with a
// due bundle. It looks at maxLooks accounts, all of which may have bundles that only wait; then it
// takes the bundle that was due first. It counts a try. It returns nil without an error if no
// bundle is due.
func (in *queue) claim(ctx context.Context) (*row, error) {
	now, err := in.now(ctx)
	if err != nil {
		return nil, err
	}
	if due, err := in.anyDue(ctx, now, ""); err != nil || !due {
		return nil, err
	}
	in.turns.Lock()
	defer in.turns.Unlock()
	busy, dead, err := in.running(ctx, now)
	if err != nil {
		return nil, err
	}
	var later []drive.AccountID
	for account, err := range in.walk(ctx, now, dead) {
		if err != nil {
			return nil, err
		}
		if slices.Contains(busy, account) {
			later = append(later, account)
			continue
		}
		if b, err := in.claimFirst(ctx, now, ofAccount, account); b != nil || err != nil {
			return b, err
		}
	}
	if b, err := in.claimFirst(ctx, now, ofIdle, now); b != nil || err != nil {
		return b, err
	}
	for _, account := range later {
		if b, err := in.claimFirst(ctx, now, ofAccount, account); b != nil || err != nil {
			in.last = account
			return b, err
		}
	}
	return in.claimFirst(ctx, now, "")
}

// Conditions on the account of a due bundle. The argument of ofAccount is the account; ofIdle means
// an account without a running bundle on any instance, and its argument is the time.
const (
	ofAccount = " AND account_id = ?"
	ofIdle    = " AND account_id NOT IN (SELECT account_id FROM bundles WHERE state = 'running' AND due_at > ?)"
)

// anyDue reports whether a bundle is due: a sealed one, or one whose worker's lease has expired.
// which is a condition on its account that begins with AND, or "". It costs one statement, which
// reads no bundle that waits.
func (in *queue) anyDue(ctx context.Context, now drive.Time, which string, args ...any) (due bool, err error) {
	err = in.opt.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM bundles WHERE state IN ('sealed', 'running') AND due_at <= ?"+which+")",
		append([]any{now}, args...)...).Scan(&due)
	if err != nil {
		return false, fmt.Errorf("look whether a bundle is due: %w", err)
	}
	return due, nil
}

// othersWait reports whether an account without a running bundle has a due one.
func (in *queue) othersWait(ctx context.Context, now drive.Time) (bool, error) {
	return in.anyDue(ctx, now, ofIdle, now)
}

// claimFirst claims the bundle that was due first: a sealed one, or one whose worker's lease has
// expired. which is a condition on its account that begins with AND, or "". The caller holds
// in.turns. It returns nil without an error if no such bundle is due, or if other workers claimed
// the first ones.
func (in *queue) claimFirst(ctx context.Context, now drive.Time, which string, args ...any) (*row, error) {
	ofState := "SELECT * FROM (SELECT id, due_at FROM bundles WHERE state = ? AND due_at <= ?" + which + " ORDER BY due_at LIMIT ?) AS "
	sealed, running := append([]any{Sealed, now}, args...), append([]any{Running, now}, args...)
	rows, err := in.opt.DB.Query(ctx, "SELECT id FROM ("+ofState+"s UNION ALL "+ofState+"r) AS d ORDER BY due_at LIMIT ?",
		slices.Concat(sealed, []any{candidates}, running, []any{candidates, candidates})...)
	ids, err := sqldb.Scan(rows, err, func(id *drive.BundleID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, fmt.Errorf("look for bundles that are due: %w", err)
	}
	for _, id := range ids {
		if b, err := in.claimOne(ctx, id); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

// running returns the accounts that have a running bundle on any instance: in busy if the lease of
// its worker is valid, in dead if it has expired. An account occurs once for each bundle.
func (in *queue) running(ctx context.Context, now drive.Time) (busy, dead []drive.AccountID, err error) {
	rows, err := in.opt.DB.Query(ctx, "SELECT account_id, due_at FROM bundles WHERE state = 'running'")
	_, err = sqldb.Scan(rows, err, func(id *drive.AccountID, scan func(...any) error) error {
		var due drive.Time
		err := scan(id, &due)
		if due > now {
			busy = append(busy, *id)
		} else {
			dead = append(dead, *id)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look which accounts have a running bundle: %w", err)
	}
	return busy, dead, nil
}

// walk yields the accounts with due bundles in the order of ids, from the one after in.last around
// to in.last itself. It passes over at most maxLooks accounts, due or not, with one statement each.
// It sets in.last to the account that it has reached, so that the next walk continues there. dead
// are the accounts with a bundle whose worker's lease has expired. The caller holds in.turns. After
// an error it yields no more.
func (in *queue) walk(ctx context.Context, now drive.Time, dead []drive.AccountID) iter.Seq2[drive.AccountID, error] {
	return func(yield func(drive.AccountID, error) bool) {
		begin, around := in.last, false
		for range maxLooks {
			var next drive.AccountID
			var due drive.Time // of its first bundle
			err := in.opt.DB.QueryRow(ctx, `SELECT account_id, due_at FROM bundles WHERE state = 'sealed' AND account_id > ?
				ORDER BY account_id, due_at LIMIT 1`, in.last.String()).Scan(&next, &due)
			if err != nil && !drive.IsKind(err, drive.NotFound) {
				yield(next, fmt.Errorf("look whose turn it is: %w", err))
				return
			}
			for _, account := range dead {
				if account.String() > in.last.String() && (next.IsZero() || account.String() <= next.String()) {
					next, due = account, now
				}
			}
			switch {
			case next.IsZero() && !around:
				in.last, around = next, true
				continue
			case next.IsZero(), around && next.String() > begin.String():
				return
			}
			in.last = next
			if due <= now && !yield(next, nil) {
				return
			}
		}
	}
}

// claimOne claims one bundle. The lease begins now, whatever it took to find the bundle. It returns
// nil without an error if another worker was faster.
func (in *queue) claimOne(ctx context.Context, id drive.BundleID) (taken *row, err error) {
	now, err := in.now(ctx)
	if err != nil {
		return nil, err
	}
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

// update executes "UPDATE bundles SET" set within tx, for the bundle that this worker has claimed.
// It does not change the fields of b. lease.ErrFenced: another worker has claimed the bundle, or it
// is no longer running (K4).
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

// renewLease extends the worker's lease of a bundle. lease.ErrFenced: the worker has lost the
// bundle. The first result, which would ask the worker to yield, is always false.
func (in *queue) renewLease(ctx context.Context, b *row) (bool, error) {
	now, err := in.now(ctx)
	if err != nil {
		return false, err
	}
	return false, in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "due_at = ?", now.Add(lease.TTL))
	})
}

// pauseFor returns the backoff after a number of tries: 5 s, doubled with each try, at most
// maxPause.
func pauseFor(tries int64) time.Duration {
	return min(5*time.Second<<min(max(tries-1, 0), 10), maxPause)
}

// giveBack makes a bundle sealed again, so that it is due after pause and any worker can claim it.
// tries is the new value of the bundle's try counter, and b.Attempts that of its attempts. reason
// and detail tell the owner why it waits. lease.ErrFenced: this worker has lost the bundle.
func (in *queue) giveBack(ctx context.Context, b *row, pause time.Duration, tries int64, reason, detail string) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	return in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'sealed', epoch = epoch + 1, due_at = ?, tries = ?, attempts = ?, reason = ?, detail = ?",
			now.Add(pause), tries, b.Attempts, reason, clip(detail, maxDetail))
	})
}

// end marks a bundle as done. A CHECK of the table verifies that the counts add up (K2).
// lease.ErrFenced: this worker has lost the bundle.
func (in *queue) end(ctx context.Context, b *row) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	return in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return b.update(ctx, tx, "state = 'done', epoch = epoch + 1, due_at = 0, tries = 0, reason = '', detail = '', ended_at = ?", now)
	})
}

// reject marks a bundle as rejected (K5). One record, with why.reason, counts all documents without
// an outcome as rejected. lease.ErrFenced: this worker has lost the bundle.
func (in *queue) reject(ctx context.Context, b *row, why *refusal) error {
	now, err := in.now(ctx)
	if err != nil {
		return err
	}
	return in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := b.update(ctx, tx, "due_at = ?", now); err != nil {
			return err
		}
		fresh, err := in.find(ctx, tx, "WHERE id = ?", b.ID) // the reply to the last batch may have been lost, so b may be stale
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

// maxDetail is the maximum length in bytes of a bundle's detail, a text for people.
const maxDetail = 1000

// clip shortens s to at most most bytes, at a character boundary.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most]
}
