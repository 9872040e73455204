package activity

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// settleTime is how old an entry is when all with a lower number have committed, whichever account
// they are of: a transaction that takes longer than 20 s is given up (package sqldb).
const settleTime = time.Minute

// AfterAll lists up to limit entries of all accounts that are younger than a position, the oldest
// first. They are all settled: what commits later has a higher position. more says that it may give
// others at once.
func (l *Log) AfterAll(ctx context.Context, q sqldb.Querier, after Position, limit int) (all []Entry, more bool, err error) {
	rows, err := q.Query(ctx, "SELECT "+columns+" FROM activity WHERE id > ? ORDER BY id LIMIT ?", int64(after), limit)
	all, err = sqldb.Scan(rows, err, scanEntry)
	if err != nil {
		return nil, false, fmt.Errorf("read what happened in all accounts: %w", err)
	}
	if l.opt.DB.Dialect() == sqldb.SQLite { // one writer gives the numbers out, in the order of its commits
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

// Place says where an export goes on that has given the entry with an event id last; empty: from
// the first entry on. Of account: it is an entry of that one; zero: of any. Errors: CursorInvalid
// for what was never given out, as after the backup of an older state was restored; and Gone when
// so much was purged since that entries after it may be missing.
func (l *Log) Place(ctx context.Context, q sqldb.Querier, account drive.AccountID, event string) (Position, error) {
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
	if !account.IsZero() { // others' entries are as if they were not there
		query, args = query+" AND account_id = ?", append(args, account)
	}
	var e Entry
	err = scanEntry(&e, q.QueryRow(ctx, query, args...).Scan)
	switch {
	case err == nil && e.EventID() == event:
		return at, nil
	case err != nil && !drive.IsKind(err, drive.NotFound):
		return 0, fmt.Errorf("look for the entry %s: %w", event, err)
	case err == nil: // the number was given out once more
		return 0, drive.Fail(drive.CursorInvalid)
	case at == oldest-1: // it was the last one that was purged
		return at, nil
	case at < oldest || newest == 0:
		return 0, drive.Fail(drive.Gone)
	}
	return 0, drive.Fail(drive.CursorInvalid) // it was never there, or not in this account
}
