package notify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Bounds of Notifier.ScanLedgers.
const (
	scanInterval         = time.Hour // between the starts of two scans
	ledgersPerStatement  = 5000      // some milliseconds
	ledgersPerCall       = 200_000   // about a second
	notificationsPerCall = 1000      // nearly full drives per call: some seconds, mostly to find that they were notified before
)

// ledgerScan is the progress of a scan of all ledgers for drives that are nearly full.
type ledgerScan struct {
	mu        sync.Mutex
	after     string     // last account; empty: no scan is running
	notBefore drive.Time // earliest start of the next scan
}

// fullDrive is a drive or space that uses at least 90 % of its quota.
type fullDrive struct {
	account drive.AccountID
	total   drive.ByteSize
	user    drive.UserID // owner; zero: a space
}

// ScanLedgers notifies the owners of nearly full drives and the managers of nearly full spaces,
// once per month. It scans a bounded number of ledgers per call; more reports that the scan goes
// on. It may be interrupted and may be called every second: a scan starts once per hour. A drive
// whose notification fails does not stop the others; all errors are joined.
func (t *Notifier) ScanLedgers(ctx context.Context) (more bool, err error) {
	t.ledgerScan.mu.Lock()
	defer t.ledgerScan.mu.Unlock()
	now := t.now()
	if t.ledgerScan.after == "" && now < t.ledgerScan.notBefore && t.ledgerScan.notBefore <= now.Add(scanInterval) { // unless the clock was set back
		return false, nil
	}
	if t.ledgerScan.after == "" {
		t.ledgerScan.notBefore = now.Add(scanInterval)
	}
	var failed []error
	told := 0
	for seen := 0; seen < ledgersPerCall; seen += ledgersPerStatement {
		all, last, err := t.nearlyFull(ctx, t.ledgerScan.after)
		if err != nil {
			return false, fmt.Errorf("look for drives that are nearly full: %w", err)
		}
		for _, one := range all {
			if told++; told > notificationsPerCall {
				return true, errors.Join(failed...)
			}
			if err := t.notifyFull(ctx, one); err != nil {
				failed = append(failed, fmt.Errorf("tell that account %s is nearly full: %w", one.account, err))
			}
			if len(failed) == maxFailures {
				return false, errors.Join(failed...)
			}
			t.ledgerScan.after = one.account.String()
		}
		if t.ledgerScan.after = last; last == "" {
			return false, errors.Join(failed...)
		}
	}
	return true, errors.Join(failed...)
}

// nearlyFull returns the nearly full drives of the next range of ledgers, and the last account of
// the range; empty: there are no more.
func (t *Notifier) nearlyFull(ctx context.Context, after string) (all []fullDrive, last string, err error) {
	top := "g" // greater than every id
	err = t.parts.DB.QueryRow(ctx, "SELECT account_id FROM ledgers WHERE account_id > ? ORDER BY account_id LIMIT 1 OFFSET ?",
		after, ledgersPerStatement-1).Scan(&last)
	switch {
	case err == nil:
		top = last
	case !drive.IsKind(err, drive.NotFound):
		return nil, "", err
	}
	rows, err := t.parts.DB.Query(ctx, `SELECT l.account_id, l.total, COALESCE(u.id, '') FROM ledgers l LEFT JOIN users u ON u.account_id = l.account_id
		WHERE l.account_id > ? AND l.account_id <= ? AND l.total > 0 AND l.finished + l.unfinished >= 0.9 * l.total ORDER BY l.account_id`, after, top)
	all, err = sqldb.Scan(rows, err, func(f *fullDrive, scan func(...any) error) error {
		var user string
		err := scan(&f.account, &f.total, &user)
		if err == nil && user != "" {
			f.user, err = drive.ParseID[drive.UserID](user)
		}
		return err
	})
	return all, last, err
}

// monthlyID returns the id of this month's notice about a nearly full drive.
func (t *Notifier) monthlyID(f fullDrive) notice.ID {
	y, m, _ := t.now().Std().UTC().Date()
	month := drive.TimeOf(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC))
	return notice.DerivedID(month, "quota", f.account.String(), strconv.FormatInt(int64(f.total), 10))
}

// notifyFull notifies the owner of a drive, or the managers of a space, that it is nearly full,
// once a month. An account that is gone is no error.
func (t *Notifier) notifyFull(ctx context.Context, full fullDrive) error {
	id := full.account
	c := notice.Cause{Kind: notice.Quota, What: notice.Full, Account: id, Data: notice.Data{Total: full.total}}
	name := t.monthlyID(full)
	if !full.user.IsZero() {
		if told, err := t.parts.Notices.Has(ctx, t.parts.DB, full.user, name); err != nil || told {
			return err
		}
		c.User = full.user
		return t.notify(ctx, name, c, t.now())
	}
	one, err := t.parts.Access.FindSpace(ctx, t.parts.DB, id)
	if drive.IsKind(err, drive.NotFound) {
		return nil // being purged
	}
	if err != nil {
		return err
	}
	c.Node = one.Root
	for after := (drive.PrincipalID{}); ; {
		all, err := t.parts.Access.ListAt(ctx, t.parts.DB, one.Root, after, rowsPerStatement)
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
			if err := t.notify(ctx, name, c, t.now()); err != nil {
				return err
			}
		}
		if len(all) < rowsPerStatement {
			return nil
		}
	}
}
