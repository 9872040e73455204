package activity

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	pollEvery = 2 * time.Second // how late one hears of what another instance has written, at most
	pollBatch = 500             // accounts of one statement
)

// Run wakes those who wait for entries that other instances write, until ctx ends. It asks for the
// accounts that somebody waits for, all in one statement, however many wait.
func (l *Log) Run(ctx context.Context) error {
	if !l.opt.Shared {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	known := map[drive.AccountID]Position{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.poll(ctx, known); err != nil && ctx.Err() == nil {
			slog.DebugContext(ctx, "look for entries of other instances", "error", err) // the next look finds them
		}
	}
}

// poll announces what is new since known was written, and writes it.
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
			if known[id] != head { // at the first sight, too: somebody may have begun to wait before it
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

// Heads are the positions of the newest entries of accounts; zero: there is none.
func (l *Log) Heads(ctx context.Context, q sqldb.Querier, accounts []drive.AccountID) (map[drive.AccountID]Position, error) {
	heads := map[drive.AccountID]Position{}
	if len(accounts) == 0 {
		return heads, nil
	}
	type head struct {
		account drive.AccountID
		at      Position
	}
	marks, in := sqldb.In(accounts)
	// The end of the index for each account: grouping would read all of its entries.
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

// Span is the positions of the oldest and the newest entry that there are; zeros: there is none.
func (l *Log) Span(ctx context.Context, q sqldb.Querier) (oldest, newest Position, err error) {
	err = q.QueryRow(ctx, "SELECT COALESCE((SELECT MIN(id) FROM activity), 0), COALESCE((SELECT MAX(id) FROM activity), 0)").Scan(&oldest, &newest)
	if err != nil {
		err = fmt.Errorf("read how far the activity log reaches: %w", err)
	}
	return oldest, newest, err
}
