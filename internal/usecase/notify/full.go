package notify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/engine/sqldb"
)

const (
	ledgersGap    = time.Hour // between the starts of two looks over all ledgers
	ledgersWindow = 5000      // that one statement reads: some milliseconds
	ledgersRun    = 200_000   // that one call reads: a second
	fullRun       = 1000      // drives that one call tells of: some seconds, mostly that it was told already
)

// sweep is how far a look over all ledgers is.
type sweep struct {
	mu    sync.Mutex
	after string     // empty: none is under way
	next  drive.Time // the next one starts no sooner
}

// full is a drive, or space, that is nearly full: 90 % of what it may have is used.
type full struct {
	account drive.AccountID
	total   drive.ByteSize
	user    drive.UserID // whose drive it is; zero: nobody's
}

// Ledgers tells whose drive or space is nearly full: once a month for as long as it stays so. It
// goes over the ledgers, some in each call, and may stop anywhere; more says that it is not
// through. Calls may come each second: a look over all starts once in an hour. One drive of which
// nobody can be told keeps no other one back.
func (t *Teller) Ledgers(ctx context.Context) (more bool, err error) {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	now := t.now()
	if t.ledger.after == "" && now < t.ledger.next && t.ledger.next <= now.Add(ledgersGap) { // unless the clock was set back
		return false, nil
	}
	if t.ledger.after == "" {
		t.ledger.next = now.Add(ledgersGap)
	}
	var failed []error
	told := 0
	for seen := 0; seen < ledgersRun; seen += ledgersWindow {
		all, last, err := t.nearlyFull(ctx, t.ledger.after)
		if err != nil {
			return false, fmt.Errorf("look for drives that are nearly full: %w", err)
		}
		for _, one := range all {
			if told++; told > fullRun {
				return true, errors.Join(failed...)
			}
			if err := t.tellFull(ctx, one); err != nil {
				failed = append(failed, fmt.Errorf("tell that account %s is nearly full: %w", one.account, err))
			}
			if len(failed) == mostFailed {
				return false, errors.Join(failed...)
			}
			t.ledger.after = one.account.String()
		}
		if t.ledger.after = last; last == "" {
			return false, errors.Join(failed...)
		}
	}
	return true, errors.Join(failed...)
}

// nearlyFull returns those of the next window of ledgers, and where it ends; empty: there is no
// other one. The database leaves out what is not full.
func (t *Teller) nearlyFull(ctx context.Context, after string) (all []full, last string, err error) {
	top := "g" // above every id
	err = t.parts.DB.QueryRow(ctx, "SELECT account_id FROM ledgers WHERE account_id > ? ORDER BY account_id LIMIT 1 OFFSET ?",
		after, ledgersWindow-1).Scan(&last)
	switch {
	case err == nil:
		top = last
	case !drive.IsKind(err, drive.NotFound):
		return nil, "", err
	}
	rows, err := t.parts.DB.Query(ctx, `SELECT l.account_id, l.total, COALESCE(u.id, '') FROM ledgers l LEFT JOIN users u ON u.account_id = l.account_id
		WHERE l.account_id > ? AND l.account_id <= ? AND l.total > 0 AND l.finished + l.unfinished >= 0.9 * l.total ORDER BY l.account_id`, after, top)
	all, err = sqldb.Scan(rows, err, func(f *full, scan func(...any) error) error {
		var user string
		err := scan(&f.account, &f.total, &user)
		if err == nil && user != "" {
			f.user, err = drive.ParseID[drive.UserID](user)
		}
		return err
	})
	return all, last, err
}

// monthly is the id of what is told of a drive within a month.
func (t *Teller) monthly(f full) notice.ID {
	y, m, _ := t.now().Std().UTC().Date()
	month := drive.TimeOf(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC))
	return notice.Named(month, "quota", f.account.String(), strconv.FormatInt(int64(f.total), 10))
}

// tellFull tells the user whose drive is nearly full, or the managers of the space.
func (t *Teller) tellFull(ctx context.Context, full full) error {
	id := full.account
	c := notice.Cause{Kind: notice.Quota, What: notice.Full, Account: id, Data: notice.Data{Total: full.total}}
	name := t.monthly(full)
	if !full.user.IsZero() {
		if told, err := t.parts.Notices.Has(ctx, t.parts.DB, full.user, name); err != nil || told {
			return err
		}
		c.User = full.user
		return t.tell(ctx, name, c, t.now())
	}
	one, err := t.parts.Access.FindSpace(ctx, t.parts.DB, id)
	if drive.IsKind(err, drive.NotFound) {
		return nil // it is being purged
	}
	if err != nil {
		return err
	}
	c.Node = one.Root
	for after := (drive.PrincipalID{}); ; {
		all, err := t.parts.Access.ListAt(ctx, t.parts.DB, one.Root, after, sweepPage)
		if err != nil {
			return err
		}
		for _, g := range all {
			after = g.Principal
			if g.Role != access.Manager {
				continue
			}
			c.User, c.Group = drive.UserID(g.Principal), drive.GroupID{}
			if g.Kind == access.Group {
				c.User, c.Group = drive.UserID{}, drive.GroupID(g.Principal)
			}
			if err := t.tell(ctx, name, c, t.now()); err != nil {
				return err
			}
		}
		if len(all) < sweepPage {
			return nil
		}
	}
}
