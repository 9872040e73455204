package export

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Accounts share the slots of all machines. An account without a running batch goes first, then a
// priority above 0 (set by administrators), then the account whose last turn is longest ago. So an
// account with one batch waits for one turn of each other account, not for all their batches.
//
// A turn ends with its batch. If an account without a slot waits, a turn also ends for the second
// batch of an account on a machine, and after a time slice. The worker then starts no further
// fetch; it finishes fast fetches and cancels slow ones, which start over in the account's next
// turn.

const (
	turnSlice = 20 * time.Second       // length of a turn while other accounts wait
	slowAge   = 5 * time.Second        // minimum age of a fetch before its rate counts
	slowRate  = 16 << 10               // bytes per second; below, 256 MiB take hours
	yieldPoll = 500 * time.Millisecond // poll interval for a yield request
)

// dueWhere selects the batches that this machine may claim. Arguments: now, machine, now.
const dueWhere = `state IN ('pending', 'aborted', 'running') AND due_at <= ? AND (avoid <> ? OR avoid_until <= ?)`

// candidates is the number of accounts, and of batches of each, that are tried: concurrent claimers
// may have locked the first ones.
const candidates = 8

// firstDue locks within tx and returns the next batch to claim; nil without an error if there is
// none. Accounts with fewer running batches come first, then those with a higher priority, then
// those whose last turn is longest ago. It searches without locks and then locks one row by key: a
// sorting query with locks would lock all sorted rows and starve other claimers.
func (q *queue) firstDue(ctx context.Context, tx *sqldb.Tx, now drive.Time) (*batch, error) {
	rows, err := tx.Query(ctx, `SELECT d.account_id,
		(SELECT COUNT(*) FROM exports r WHERE r.state = 'running' AND r.due_at > ? AND r.account_id = d.account_id) AS busy,
		MAX(CASE WHEN d.priority > 0 THEN d.priority ELSE 0 END) AS urgency, COALESCE(MAX(t.turn_at), 0) AS turn, MIN(d.due_at) AS since
		FROM exports d LEFT JOIN export_turns t ON t.account_id = d.account_id WHERE `+dueWhere+`
		GROUP BY d.account_id ORDER BY busy, urgency DESC, turn, since LIMIT ?`, now, now, q.opt.Machine, now, candidates)
	accounts, err := sqldb.Scan(rows, err, func(id *drive.AccountID, scan func(...any) error) error {
		var busy, urgency, turn, since int64
		return scan(id, &busy, &urgency, &turn, &since)
	})
	if err != nil {
		return nil, fmt.Errorf("look whose turn it is: %w", err)
	}
	for _, account := range accounts {
		b, err := q.firstOf(ctx, tx, account, now)
		if err != nil || b != nil {
			return b, err
		}
	}
	return nil, nil
}

// firstOf locks within tx and returns the first due batch of an account that no other claimer has
// locked; nil without an error if there is none.
func (q *queue) firstOf(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, now drive.Time) (*batch, error) {
	rows, err := tx.Query(ctx, "SELECT id FROM exports WHERE account_id = ? AND "+dueWhere+" ORDER BY priority DESC, due_at, id LIMIT ?",
		account, now, q.opt.Machine, now, candidates)
	ids, err := sqldb.Scan(rows, err, func(id *drive.ExportID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		b, err := q.find(ctx, tx, "WHERE id = ? AND "+dueWhere+skipLocked(tx), id, now, q.opt.Machine, now)
		if err == nil || !drive.IsKind(err, drive.NotFound) {
			return &b, err
		}
	}
	return nil, nil
}

// recordTurn records that a turn of an account begins now: one of its batches was claimed.
func recordTurn(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, now drive.Time) error {
	n, err := tx.Exec(ctx, "UPDATE export_turns SET turn_at = ? WHERE account_id = ?", now, account)
	if err == nil && n == 0 {
		_, err = tx.InsertNew(ctx, "INSERT INTO export_turns (account_id, turn_at) VALUES (?, ?)", account, now) // a concurrent insert is equivalent
	}
	if err != nil {
		return fmt.Errorf("write down a turn: %w", err)
	}
	return nil
}

// requestTurn asks a batch of this machine to yield (see batchToYield) if an account without a
// running batch waits. The worker of that batch returns it at its next save point. Call it if no
// slot is free.
func (q *queue) requestTurn(ctx context.Context) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	rows, err := q.opt.DB.Query(ctx, selectViews+"WHERE state = 'running' AND machine = ? AND due_at > ? ORDER BY claimed_at, id", q.opt.Machine, now)
	here, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return fmt.Errorf("look who has the places: %w", err)
	}
	b := batchToYield(here, now)
	if b == nil {
		return nil
	}
	asks := false
	err = q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if asks, err = q.accountsWait(ctx, tx, now); err != nil || !asks {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE exports SET yield_at = ? WHERE id = ? AND epoch = ? AND state = 'running' AND yield_at = 0", now, b.ID, b.Epoch)
		return err
	})
	if err != nil || !asks {
		return err
	}
	q.log.InfoContext(ctx, "asking a batch to yield its slot to a waiting account", "export", b.ID)
	if asked, mine := q.yieldFuncs.Load(b.ID); mine { // in this process: do not wait for the heartbeat
		asked.(func())()
	}
	return nil
}

// accountsWait reports whether more accounts without a running batch wait than batches were asked
// to yield, on all machines. Two machines that check concurrently may both ask.
func (q *queue) accountsWait(ctx context.Context, tx *sqldb.Tx, now drive.Time) (bool, error) {
	var waiting, asked int
	err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM exports WHERE state = 'running' AND due_at > ? AND yield_at > 0", now).Scan(&asked)
	if err != nil {
		return false, fmt.Errorf("count the places that were asked for: %w", err)
	}
	// The LIMIT bounds the count: more do not matter.
	err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT DISTINCT d.account_id FROM exports d WHERE `+dueWhere+` AND NOT EXISTS (
		SELECT 1 FROM exports r WHERE r.state = 'running' AND r.due_at > ? AND r.account_id = d.account_id) LIMIT ?) w`,
		now, q.opt.Machine, now, now, asked+1).Scan(&waiting)
	if err != nil {
		return false, fmt.Errorf("count those who wait: %w", err)
	}
	return waiting > asked, nil
}

// batchToYield returns the batch that should yield to a waiting account; nil if none should or one
// has been asked already. It is the latest batch of an account that uses more than half of the
// slots, or else the oldest one if its turn is over. here are the running batches of this machine
// in order of claim.
func batchToYield(here []batch, now drive.Time) *batch {
	held := map[drive.AccountID]int{}
	for _, b := range here {
		if b.YieldAt != 0 {
			return nil
		}
		held[b.Account]++
	}
	for i := len(here) - 1; i >= 0; i-- { // the latest claim loses least
		if 2*held[here[i].Account] > perMachine {
			return &here[i]
		}
	}
	if len(here) > 0 && here[0].ClaimedAt <= now.Add(-turnSlice) {
		return &here[0]
	}
	return nil
}

// purgeTurns deletes the rows of export_turns of accounts that had no turn in the last keepRows
// before now.
func (q *queue) purgeTurns(ctx context.Context, now drive.Time) error {
	return q.deleteInChunks(ctx, sqldb.Batch{Table: "export_turns", Key: "account_id", Where: "turn_at < ?", Args: []any{now.Add(-keepRows)}, Order: "turn_at"})
}
