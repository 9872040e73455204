package export

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Accounts share the places of all machines. Who has none goes first; among those an
// administrator's word (a priority above 0) counts, and then whose last turn is longest ago. So an
// account with one export waits for the turns of others, and not for all that they have asked for.
//
// A turn ends when its batch does. When somebody without a place waits, it also ends for the second
// batch of an account on a machine, and after a slice of time. The worker then starts no further
// document; those that come at a good rate it ends, slow ones it gives up, and they begin again in
// the account's next turn.

const (
	slice    = 20 * time.Second // of a turn, while others wait
	slowAge  = 5 * time.Second  // a document is not judged by its rate before
	slowRate = 16 << 10         // bytes a second; a document of 256 MiB takes hours at less
	lookAt   = 500 * time.Millisecond
)

// due are batches that this machine may take. Its arguments are the time, the machine, the time.
const due = `state IN ('pending', 'aborted', 'running') AND due_at <= ? AND (avoid <> ? OR avoid_until <= ?)`

// candidates is how many accounts, and how many batches of each, are tried: others may be taking
// the first ones just now.
const candidates = 8

// firstDue finds the batch that is to be taken next and locks it. It looks without locking, and
// then locks one by its key: a look that sorts and locks would lock all that it sorts, and others
// would find nothing.
func (q *queue) firstDue(ctx context.Context, tx *sqldb.Tx, now drive.Time) (*batch, error) {
	rows, err := tx.Query(ctx, `SELECT d.account_id,
		(SELECT COUNT(*) FROM exports r WHERE r.state = 'running' AND r.due_at > ? AND r.account_id = d.account_id) AS busy,
		MAX(CASE WHEN d.priority > 0 THEN d.priority ELSE 0 END) AS urgency, COALESCE(MAX(t.turn_at), 0) AS turn, MIN(d.due_at) AS since
		FROM exports d LEFT JOIN export_turns t ON t.account_id = d.account_id WHERE `+due+`
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

// firstOf locks the first batch of an account that nobody else is taking.
func (q *queue) firstOf(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, now drive.Time) (*batch, error) {
	rows, err := tx.Query(ctx, "SELECT id FROM exports WHERE account_id = ? AND "+due+" ORDER BY priority DESC, due_at, id LIMIT ?",
		account, now, q.opt.Machine, now, candidates)
	ids, err := sqldb.Scan(rows, err, func(id *drive.ExportID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		b, err := q.find(ctx, tx, "WHERE id = ? AND "+due+skipLocked(tx), id, now, q.opt.Machine, now)
		if err == nil || !drive.IsKind(err, drive.NotFound) {
			return &b, err
		}
	}
	return nil, nil
}

// took writes down that an account has had a turn.
func took(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, now drive.Time) error {
	n, err := tx.Exec(ctx, "UPDATE export_turns SET turn_at = ? WHERE account_id = ?", now, account)
	if err == nil && n == 0 {
		_, err = tx.InsertNew(ctx, "INSERT INTO export_turns (account_id, turn_at) VALUES (?, ?)", account, now) // another one's is as good
	}
	if err != nil {
		return fmt.Errorf("write down a turn: %w", err)
	}
	return nil
}

// askForTurn asks for a place of this machine, if all of them are taken and an account waits that
// has none anywhere.
func (q *queue) askForTurn(ctx context.Context) error {
	now, err := q.now(ctx)
	if err != nil {
		return err
	}
	rows, err := q.opt.DB.Query(ctx, selectViews+"WHERE state = 'running' AND machine = ? AND due_at > ? ORDER BY claimed_at, id", q.opt.Machine, now)
	here, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return fmt.Errorf("look who has the places: %w", err)
	}
	b := whoseTurnIsOver(here, now)
	if b == nil {
		return nil
	}
	asks := false
	err = q.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if asks, err = q.somebodyWaits(ctx, tx, now); err != nil || !asks {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE exports SET yield_at = ? WHERE id = ? AND epoch = ? AND state = 'running' AND yield_at = 0", now, b.ID, b.Epoch)
		return err
	})
	if err != nil || !asks {
		return err
	}
	q.log.InfoContext(ctx, "a batch is to wait for its next turn", "export", b.ID)
	if asked, mine := q.asked.Load(b.ID); mine { // no need to wait for its heartbeat
		asked.(func())()
	}
	return nil
}

// somebodyWaits reports whether more accounts wait that have no place than places were asked for,
// on all machines: one that waits asks one machine. Two machines that look in the same moment may
// both ask.
func (q *queue) somebodyWaits(ctx context.Context, tx *sqldb.Tx, now drive.Time) (bool, error) {
	var waiting, asked int
	err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM exports WHERE state = 'running' AND due_at > ? AND yield_at > 0", now).Scan(&asked)
	if err != nil {
		return false, fmt.Errorf("count the places that were asked for: %w", err)
	}
	// No more are counted than decide.
	err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT DISTINCT d.account_id FROM exports d WHERE `+due+` AND NOT EXISTS (
		SELECT 1 FROM exports r WHERE r.state = 'running' AND r.due_at > ? AND r.account_id = d.account_id) LIMIT ?) w`,
		now, q.opt.Machine, now, now, asked+1).Scan(&waiting)
	if err != nil {
		return false, fmt.Errorf("count those who wait: %w", err)
	}
	return waiting > asked, nil
}

// whoseTurnIsOver is the batch that makes room when somebody waits; nil: none does yet, or one is
// about to. The batches of a machine come in the order in which they were taken.
func whoseTurnIsOver(here []batch, now drive.Time) *batch {
	held := map[drive.AccountID]int{}
	for _, b := range here {
		if b.YieldAt != 0 {
			return nil
		}
		held[b.Account]++
	}
	for i := len(here) - 1; i >= 0; i-- { // the last one has least to lose
		if 2*held[here[i].Account] > perMachine {
			return &here[i]
		}
	}
	if len(here) > 0 && here[0].ClaimedAt <= now.Add(-slice) {
		return &here[0]
	}
	return nil
}

// purgeTurns forgets those of accounts that have had none for long.
func (q *queue) purgeTurns(ctx context.Context, now drive.Time) error {
	return q.dropOld(ctx, sqldb.Batch{Table: "export_turns", Key: "account_id", Where: "turn_at < ?", Args: []any{now.Add(-keepRows)}, Order: "turn_at"})
}
