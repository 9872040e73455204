package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/turn"
)

// Lists are not content, so that no quota bounds them: an account has a budget of its own for the
// text of all its lists, and the process one for the memory of those that are being read.
const (
	maxTexts   = int64(128 * drive.MiB) // of an account; 50 batches of 10,000 entries of usual names have some 80 MiB
	textOfRow  = 100                    // bytes of a row beside its texts
	listMemory = int64(32 * drive.MiB)  // of bodies that are being read; in memory each takes some three times as much
	smallList  = int64(drive.MiB)       // so much of each is not counted: requests of a user are limited

	maxListText  = int64(24 * drive.MiB) // of one list: 10,000 addresses of 1 KiB, twice
	maxListNames = int64(8 * drive.MiB)  // of the names in one zip, which are in memory while it is sent
	atWork       = 2                     // lists that are made at a time, and zips that are laid out; of an account one
)

// errTexts: the lists of the account are as much as they may be.
var errTexts = errors.New("no room for another list")

func textOf(list []want) (n int64) {
	for _, w := range list {
		n += textOfRow + int64(len(w.Doc)+len(w.URL)+len(w.Path)+len(w.Name))
	}
	return n
}

// enter waits for a turn at lists, which are in memory several times while they are made or laid
// out; end gives it back. An account has one at a time, so that others wait for one list of it and
// not for all that it asks for. Downloads have turns of their own, so that they never wait for a
// list of a batch. The error is Unavailable.
func enter(ctx context.Context, lists *turn.Turns, account drive.AccountID) (end func(), err error) {
	if end, err = lists.Take(ctx, account); err != nil {
		return nil, drive.Wrap(errOr(context.Cause(ctx), err), drive.Unavailable)
	}
	return end, nil
}

// lists are what batches want, before the batches exist: frozen, cut into zips, and counted for the
// account that they belong to.
type lists struct {
	*ground
	making *turn.Turns // in memory: see enter
}

// charge writes down how large the list of a batch is, before the list is written. Batches of the
// account that have ended make room, the oldest first; then it is TooLarge. What a schedule makes
// is written down and not refused: an account has few of them.
func (l *lists) charge(ctx context.Context, b batch, size int64) error {
	for {
		err := l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return l.chargeTx(ctx, tx, b, size) })
		if !errors.Is(err, errTexts) {
			return err
		}
		old, findErr := l.find(ctx, l.opt.DB, "WHERE account_id = ? AND released_at > 0 ORDER BY released_at, id LIMIT 1", b.Account)
		if drive.IsKind(findErr, drive.NotFound) {
			return drive.Wrap(err, drive.TooLarge, "field", "entries", "reason", "lists", "limit", maxTexts, "sent", size)
		}
		if findErr == nil {
			findErr = l.drop(ctx, old.ID)
		}
		if findErr != nil {
			return fmt.Errorf("make room for a list: %w", findErr)
		}
	}
}

func (l *lists) chargeTx(ctx context.Context, tx *sqldb.Tx, b batch, size int64) error {
	if err := l.opt.Ledger.Lock(ctx, tx, b.Account); err != nil {
		return err
	}
	var have int64
	if err := tx.QueryRow(ctx, "SELECT COALESCE(SUM(size), 0) FROM export_texts WHERE account_id = ?", b.Account).Scan(&have); err != nil {
		return fmt.Errorf("add up the lists of account %s: %w", b.Account, err)
	}
	if have+size > maxTexts && b.Origin != Scheduled {
		return errTexts
	}
	_, err := tx.Exec(ctx, "INSERT INTO export_texts (export_id, account_id, size) VALUES (?, ?, ?)", b.ID, b.Account, size)
	return err
}

// uncharge forgets how large a list was, when it is gone.
func (l *lists) uncharge(ctx context.Context, id drive.ExportID) error {
	return l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM export_texts WHERE export_id = ?", id)
		return err
	})
}

// Incoming is the body of a list, of which only so much is taken into memory at a time as there is
// for all of them.
type Incoming struct {
	src  io.Reader
	all  *atomic.Int64
	n    int64 // read
	took int64 // of all
	full bool
}

// Incoming begins to read a list. Close gives its memory back.
func (e *Exports) Incoming(src io.Reader) *Incoming { return &Incoming{src: src, all: &e.reading} }

// Read implements io.Reader.
func (in *Incoming) Read(p []byte) (int, error) {
	if in.full {
		return 0, in.Err()
	}
	n, err := in.src.Read(p)
	if in.n += int64(n); in.n > smallList {
		more := in.n - smallList - in.took
		in.took += more
		if in.all.Add(more) > listMemory {
			in.full = true
			return 0, in.Err()
		}
	}
	return n, err
}

// Err is Unavailable if there was no memory for the list.
func (in *Incoming) Err() error {
	if in.full {
		return drive.Fail(drive.Unavailable, "retry_after", 10)
	}
	return nil
}

// Close gives the memory back, when nothing of what was read is held any more.
func (in *Incoming) Close() {
	in.all.Add(-in.took)
	in.took, in.full = 0, true
}
