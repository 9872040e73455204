package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/turn"
)

// Lists are not part of the quota. So the text of all lists of an account has its own limit, and so
// has the memory for lists being read, from request bodies or for schedules.
const (
	maxTexts      = int64(128 * drive.MiB) // per account; 50 batches of 10,000 entries with usual names have some 80 MiB
	rowTextBytes  = 100                    // bytes of a row beside its texts
	bodyMemory    = int64(32 * drive.MiB)  // total bytes of bodies being read; in memory each takes about three times as much
	uncountedBody = int64(drive.MiB)       // bytes of each body that are not counted; requests per user are limited

	maxListText  = int64(24 * drive.MiB) // per list: 10,000 URLs of 1 KiB, twice
	maxListNames = int64(8 * drive.MiB)  // names per zip, which are in memory while it is sent
	maxLayouts   = 2                     // concurrent list builds, and concurrent layouts; one per account
)

// errListLimit reports that the lists of the account exceed maxTexts.
var errListLimit = errors.New("no room for another list")

// textBytes returns the bytes that a list counts against the limit maxTexts of its account.
func textBytes(list []listEntry) (n int64) {
	for _, w := range list {
		n += rowTextBytes + int64(len(w.Doc)+len(w.URL)+len(w.Path)+len(w.Name))
	}
	return n
}

// acquireTurn waits until the account may build a list or lay out a zip, which hold the list in
// memory several times. An account has one turn at a time, so other accounts wait for at most one
// of its lists. Downloads use separate turns and never wait for a batch. Without an error the
// caller must call end. If ctx ends first, the error is Unavailable.
func acquireTurn(ctx context.Context, lists *turn.Limiter, account drive.AccountID) (end func(), err error) {
	if end, err = lists.Acquire(ctx, account); err != nil {
		return nil, drive.Wrap(errOr(context.Cause(ctx), err), drive.Unavailable)
	}
	return end, nil
}

// listStore stores the lists of batches before the batches exist: it freezes, splits and charges
// them.
type listStore struct {
	*core
	turns *turn.Limiter // limits concurrent list builds; see acquireTurn
}

// charge records the size of a batch's list before the list is written. If the lists of the account
// exceed maxTexts, it deletes the oldest released batches of the account; if none is left, it
// returns TooLarge. The lists of schedules are only recorded; checkTexts limits those that
// schedules read from a file.
func (l *listStore) charge(ctx context.Context, b batch, size int64) error {
	return l.makeRoom(ctx, b.Account, func() error {
		return l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return l.chargeTx(ctx, tx, b, size) })
	})
}

// makeRoom calls fit, and as long as that returns errListLimit, deletes the oldest released batch
// of the account and calls it again. It returns nil or the last error of fit, which is errListLimit
// if no released batch is left.
func (l *listStore) makeRoom(ctx context.Context, account drive.AccountID, fit func() error) error {
	for {
		err := fit()
		if !errors.Is(err, errListLimit) {
			return err
		}
		old, findErr := l.find(ctx, l.opt.DB, "WHERE account_id = ? AND released_at > 0 ORDER BY released_at, id LIMIT 1", account)
		if drive.IsKind(findErr, drive.NotFound) {
			return err
		}
		if findErr == nil {
			findErr = l.deleteBatch(ctx, old.ID)
		}
		if findErr != nil {
			return fmt.Errorf("make room for a list: %w", findErr)
		}
	}
}

// chargeTx inserts the size of the list of b into export_texts, after it has locked the account's
// ledger. It returns errListLimit, as TooLarge, if the account's lists would exceed maxTexts; lists
// of schedules are exempt.
func (l *listStore) chargeTx(ctx context.Context, tx *sqldb.Tx, b batch, size int64) error {
	if err := l.opt.Ledger.Lock(ctx, tx, b.Account); err != nil {
		return err
	}
	var have int64
	if err := tx.QueryRow(ctx, "SELECT COALESCE(SUM(size), 0) FROM export_texts WHERE account_id = ?", b.Account).Scan(&have); err != nil {
		return fmt.Errorf("add up the lists of account %s: %w", b.Account, err)
	}
	if have+size > maxTexts && b.Origin != Scheduled {
		return listLimit(size)
	}
	_, err := tx.Exec(ctx, "INSERT INTO export_texts (export_id, account_id, size) VALUES (?, ?, ?)", b.ID, b.Account, size)
	return err
}

// checkTexts returns errListLimit, as TooLarge, if a set with lists of size bytes would make those
// of the account's batches exceed maxTexts. It ignores lists without a batch, so that instances
// that make the lists of one month concurrently do not refuse each other's.
func (l *listStore) checkTexts(ctx context.Context, q sqldb.Querier, account drive.AccountID, size int64) error {
	var have int64
	err := q.QueryRow(ctx, `SELECT COALESCE(SUM(t.size), 0) FROM export_texts t JOIN exports x ON x.id = t.export_id WHERE t.account_id = ?`,
		account).Scan(&have)
	if err != nil {
		return fmt.Errorf("add up the lists of account %s: %w", account, err)
	}
	if have+size > maxTexts {
		return listLimit(size)
	}
	return nil
}

// listLimit returns errListLimit as TooLarge for a list of size bytes.
func listLimit(size int64) error {
	return drive.Wrap(errListLimit, drive.TooLarge, "field", "entries", "reason", "lists", "limit", maxTexts, "sent", size)
}

// uncharge deletes the recorded size of list id. A list without one is no error.
func (l *listStore) uncharge(ctx context.Context, id drive.ExportID) error {
	return l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM export_texts WHERE export_id = ?", id)
		return err
	})
}

// LimitedBody is a list that is being read, from a request's body or a stored file. All of them
// together have a memory limit.
type LimitedBody struct {
	src     io.Reader
	all     *atomic.Int64 // bytes counted for all bodies; shared
	n       int64         // bytes read
	counted int64         // bytes counted in all
	full    bool          // the limit was reached, or Close was called
}

// LimitBody wraps the request body src so that reading it counts against the memory for lists. The
// caller must call Close when the parsed list is no longer in memory. Close does not close src.
func (e *Exports) LimitBody(src io.Reader) *LimitedBody {
	return &LimitedBody{src: src, all: &e.reading}
}

// Read reads from src and counts the bytes above uncountedBody against the memory that all bodies
// share. Once that memory is exceeded, Read returns 0 and Unavailable, in this and each further
// call.
func (in *LimitedBody) Read(p []byte) (int, error) {
	if in.full {
		return 0, in.Err()
	}
	n, err := in.src.Read(p)
	if in.n += int64(n); in.n > uncountedBody {
		more := in.n - uncountedBody - in.counted
		in.counted += more
		if in.all.Add(more) > bodyMemory {
			in.full = true
			return 0, in.Err()
		}
	}
	return n, err
}

// Err returns Unavailable if Read has reached the memory limit, else nil. Callers use it because a
// decoder may hide the error of Read.
func (in *LimitedBody) Err() error {
	if in.full {
		return drive.Fail(drive.Unavailable, "retry_after", 10)
	}
	return nil
}

// Close releases the memory that was counted for the list. Afterwards Read and Err return
// Unavailable. Call it when the parsed list is no longer needed.
func (in *LimitedBody) Close() {
	in.all.Add(-in.counted)
	in.counted, in.full = 0, true
}
