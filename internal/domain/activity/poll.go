package activity

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	pollInterval = 2 * time.Second // bounds how late entries of other instances are noticed
	pollBatch    = 500             // accounts per statement
)

// Run polls for entries of other instances and notifies watches, until ctx ends, and returns nil.
// It queries the watched accounts only, with one statement for many accounts. Without
// Options.Shared it only waits.
func (l *Log) Run(ctx context.Context) error {
	if !l.opt.Shared {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	known := map[drive.AccountID]Position{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.poll(ctx, known); err != nil && ctx.Err() == nil {
			slog.DebugContext(ctx, "polling for entries of other instances failed; the next poll retries", "error", err)
		}
	}
}

// poll reads the newest entries of all watched accounts, notifies the watches of those whose newest
// entry differs from known, also at first sight, and updates known in place; accounts no longer
// watched are removed from it.
func (l *Log) poll(ctx context.Context, known map[drive.AccountID]Position) error {
	waiting := l.hub.watched()
	here := map[drive.AccountID]bool{}
	for some := range slices.Chunk(waiting, pollBatch) {
		heads, err := l.Heads(ctx, l.opt.DB, some)
		if err != nil {
			return err
		}
		for id, head := range heads {
			here[id] = true
			if known[id] != head { // also at first sight: the watch may have started before the entry
				known[id] = head
				l.hub.announce(id)
			}
		}
	}
	for id := range known {
		if !here[id] {
			delete(known, id)
		}
	}
	return nil
}

// Heads returns the position of the newest entry of each account; zero: the account has no entry.
// Accounts that do not exist are missing in the map.
func (l *Log) Heads(ctx context.Context, q sqldb.Querier, accounts []drive.AccountID) (map[drive.AccountID]Position, error) {
	heads := map[drive.AccountID]Position{}
	if len(accounts) == 0 {
		return heads, nil
	}
	type head struct {
		account drive.AccountID
		at      Position
	}
	marks, in := sqldb.ListArgs(accounts)
	// Reads the end of the index per account; grouping would read all entries.
	rows, err := q.Query(ctx, `SELECT a.id, COALESCE((SELECT x.id FROM activity x WHERE x.account_id = a.id ORDER BY x.id DESC LIMIT 1), 0)
		FROM accounts a WHERE a.id IN (`+marks+`)`, in...)
	all, err := sqldb.Scan(rows, err, func(h *head, scan func(...any) error) error { return scan(&h.account, &h.at) })
	if err != nil {
		return nil, fmt.Errorf("read the newest entries of %d accounts: %w", len(accounts), err)
	}
	for _, h := range all {
		heads[h.account] = h.at
	}
	return heads, nil
}

// Span returns the positions of the oldest and the newest entry; zeros: no entry.
func (l *Log) Span(ctx context.Context, q sqldb.Querier) (oldest, newest Position, err error) {
	err = q.QueryRow(ctx, "SELECT COALESCE((SELECT MIN(id) FROM activity), 0), COALESCE((SELECT MAX(id) FROM activity), 0)").Scan(&oldest, &newest)
	if err != nil {
		err = fmt.Errorf("read how far the activity log reaches: %w", err)
	}
	return oldest, newest, err
}
