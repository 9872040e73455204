package activity

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// settleTime is the age from which an entry is settled: all entries with lower numbers, of any
// account, have committed by then, because a transaction is aborted after 20 s (package sqldb).
const settleTime = time.Minute

// ListSettledAfter lists up to limit settled entries of all accounts after a position, oldest
// first. Entries that commit later have higher positions. more reports that another call may return
// entries at once.
func (l *Log) ListSettledAfter(ctx context.Context, q sqldb.Querier, after Position, limit int) (all []Entry, more bool, err error) {
	rows, err := q.Query(ctx, "SELECT "+columns+" FROM activity WHERE id > ? ORDER BY id LIMIT ?", int64(after), limit)
	all, err = sqldb.Scan(rows, err, scanEntry)
	if err != nil {
		return nil, false, fmt.Errorf("read what happened in all accounts: %w", err)
	}
	if l.opt.DB.Dialect() == sqldb.SQLite { // a single writer assigns numbers in commit order
		return all, len(all) == limit, nil
	}
	before := drive.TimeOf(l.opt.Now().Add(-settleTime))
	for i, e := range all {
		if e.At > before {
			return all[:i], false, nil
		}
	}
	return all, len(all) == limit, nil
}

// PositionAfter returns the position from which an export continues after the entry with the event
// id; empty: from the first entry. If account is set, the entry must belong to it. It fails with
// CursorInvalid if the entry never existed there, for example after the restore of an older backup,
// and with Gone if entries after it may have been purged.
func (l *Log) PositionAfter(ctx context.Context, q sqldb.Querier, account drive.AccountID, event string) (Position, error) {
	if event == "" {
		return 0, nil
	}
	at, ok := ParseEventID(event)
	if !ok {
		return 0, drive.Fail(drive.CursorInvalid)
	}
	oldest, newest, err := l.Span(ctx, q)
	if err != nil {
		return 0, err
	}
	query, args := "SELECT "+columns+" FROM activity WHERE id = ?", []any{int64(at)}
	if !account.IsZero() { // entries of other accounts must not be revealed
		query, args = query+" AND account_id = ?", append(args, account)
	}
	var e Entry
	err = scanEntry(&e, q.QueryRow(ctx, query, args...).Scan)
	switch {
	case err == nil && e.EventID() == event:
		return at, nil
	case err != nil && !drive.IsKind(err, drive.NotFound):
		return 0, fmt.Errorf("look for the entry %s: %w", event, err)
	case err == nil: // another entry got the same number after a restore
		return 0, drive.Fail(drive.CursorInvalid)
	case at == oldest-1: // the last purged entry
		return at, nil
	case at < oldest || newest == 0:
		return 0, drive.Fail(drive.Gone)
	}
	return 0, drive.Fail(drive.CursorInvalid) // never existed, or in another account
}
