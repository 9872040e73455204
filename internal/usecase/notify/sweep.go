package notify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Roles expire and drives fill up without a request. Periodic scans find such events and derive the
// id of the notice from the event, so that repeated scans do not notify twice.

// Bounds of the scan for expiring roles.
const (
	expiryNotice     = 3 * 24 * time.Hour // how long before its expiry a role is announced to expire
	rowsPerStatement = 500                // rows per statement
	expiredKept      = 7 * 24 * time.Hour // how long an expired role is kept while its expiry cannot be notified

	staleScanAfter = 3 * time.Hour // a scan that has not continued for this long starts over, because another process may have scanned

	maxFailures   = 10   // failed notifications after which a range is given up: the cause is then general
	peoplePerCall = 2000 // users notified by one call: some seconds

	metaRoles = "notices-roles" // times up to which expiries were notified
)

// expiringRole is a grant with an expiry.
type expiringRole struct {
	node      drive.NodeID
	principal drive.PrincipalID
	kind      access.Kind
	account   drive.AccountID
	role      access.Role
	updated   drive.Time
	expires   drive.Time
}

// roleScan is the progress of a scan for expiring roles.
type roleScan struct {
	maxPeople int // users notified per call, plus the rest of a group

	mu         sync.Mutex
	ranges     []expiryRange // still to be scanned; none: no scan is running
	until, now drive.Time    // until and now are stored when the scan ends.
	lastCall   drive.Time    // time of the last call
	failed     bool          // a notification failed, so the next scan starts at the same time as this one
}

// expiryRange selects the roles that expire after the role after and no later than to.
type expiryRange struct {
	what  notice.Event
	after expiringRole
	to    drive.Time
}

// newExpiryRange returns the range of roles that expire after from and no later than to.
func newExpiryRange(what notice.Event, from, to drive.Time) expiryRange {
	return expiryRange{what, expiringRole{expires: from + 1}, to}
}

// ScanExpiringRoles notifies users whose role expires within days or has expired. It must run
// before expired roles are deleted (see RolesNotifiedUntil). It may be interrupted and repeated;
// more reports that the scan goes on.
func (t *Notifier) ScanExpiringRoles(ctx context.Context) (more bool, err error) {
	l := &t.roleScan
	l.mu.Lock()
	defer l.mu.Unlock()
	now := t.now()
	if len(l.ranges) == 0 || now < l.lastCall || now >= l.lastCall.Add(staleScanAfter) {
		if err := t.startRoleScan(ctx, now); err != nil {
			return false, err
		}
	}
	l.lastCall = now
	var failed []error
	for people := 0; len(l.ranges) > 0; {
		told, through, err := t.notifyRange(ctx, &l.ranges[0])
		if people += told; err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			return true, errors.Join(failed...)
		}
		if l.failed = l.failed || err != nil; through {
			l.ranges = l.ranges[1:]
		}
		if people >= l.maxPeople && len(l.ranges) > 0 {
			return true, errors.Join(failed...)
		}
	}
	if l.failed { // the next scan notifies again; ids prevent duplicates
		return false, errors.Join(failed...)
	}
	return false, t.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return meta.Set(ctx, tx, metaRoles, fmt.Sprintf("%d %d", int64(l.until), int64(l.now)))
	})
}

// startRoleScan prepares t.roleScan to find the roles that end soon or have ended since the times
// where the last scan ended, which it reads from the database. It writes nothing.
func (t *Notifier) startRoleScan(ctx context.Context, now drive.Time) error {
	soon, ended := now, now // first scan: roles that have already expired are not notified
	text, err := meta.Find(ctx, t.parts.DB, metaRoles)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return err
	}
	if a, b, ok := strings.Cut(text, " "); ok {
		soon, ended = max(parseTime(a), now), parseTime(b)
	}
	until := now.Add(expiryNotice)
	if soon > until { // written by a clock that was ahead; ids prevent duplicates
		soon = now
	}
	if ended > now {
		ended = now.Add(-expiryNotice)
	}
	l := &t.roleScan
	l.ranges, l.until, l.now, l.failed = []expiryRange{newExpiryRange(notice.Ended, ended, now), newExpiryRange(notice.Ending, soon, until)}, until, now, false
	return nil
}

// RolesNotifiedUntil returns the time, at most now, up to which expired roles may be deleted
// because their expiry was notified. Roles that expired a week ago may be deleted in any case.
func (t *Notifier) RolesNotifiedUntil(ctx context.Context, now time.Time) (time.Time, error) {
	least := now.Add(-expiredKept)
	text, err := meta.Find(ctx, t.parts.DB, metaRoles)
	if drive.IsKind(err, drive.NotFound) {
		return least, nil
	}
	if err != nil {
		return least, err
	}
	_, b, _ := strings.Cut(text, " ")
	told := parseTime(b).Std()
	switch {
	case told.Before(least), told.After(t.parts.Now()): // the latter was written by a clock that was ahead
		return least, nil
	case told.After(now): // now may be behind the wall clock
		return now, nil
	}
	return told, nil
}

// parseTime parses a stored time; 0 if it is malformed.
func parseTime(s string) drive.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return drive.Time(n)
}

// notifyRange notifies the next roles of a range, rowsPerStatement at most, and advances it. It
// returns the number of users notified. through reports that the range is finished, or given up
// after a failed query or maxFailures failed notifications.
func (t *Notifier) notifyRange(ctx context.Context, e *expiryRange) (people int, through bool, err error) {
	after := e.after
	rows, err := t.parts.DB.Query(ctx, `SELECT node_id, principal_id, kind, account_id, role, updated_at, expires_at FROM grants
		WHERE expires_at > 0 AND expires_at >= ? AND expires_at <= ? AND (expires_at > ? OR node_id > ? OR node_id = ? AND principal_id > ?)
		ORDER BY expires_at, node_id, principal_id LIMIT ?`, after.expires, e.to, after.expires, after.node.String(), after.node.String(),
		after.principal.String(), rowsPerStatement)
	all, err := sqldb.Scan(rows, err, func(e *expiringRole, scan func(...any) error) error {
		return scan(&e.node, &e.principal, &e.kind, &e.account, &e.role, &e.updated, &e.expires)
	})
	if err != nil {
		return 0, true, fmt.Errorf("look for roles that end: %w", err)
	}
	var failed []error // a failed notification does not stop the others
	for _, one := range all {
		if people >= t.roleScan.maxPeople {
			return people, false, errors.Join(failed...)
		}
		told, err := t.notifyExpiry(ctx, one, e.what)
		if people += told; err != nil {
			failed = append(failed, fmt.Errorf("tell of the role of %s at %s: %w", one.principal, one.node, err))
		}
		switch {
		case ctx.Err() != nil: // this role is notified again
			return people, false, errors.Join(failed...)
		case len(failed) == maxFailures:
			return people, true, errors.Join(failed...)
		}
		e.after = one
	}
	return people, len(all) < rowsPerStatement, errors.Join(failed...)
}

// notifyExpiry notifies the principal of one role that it ends soon or has ended, and returns the
// number of users notified. It does nothing for a role without rights, nor for one that ends within
// expiryNotice of its last change: the notice of that change named the expiry.
func (t *Notifier) notifyExpiry(ctx context.Context, e expiringRole, what notice.Event) (people int, err error) {
	if e.role.Rights() == 0 || what == notice.Ending && e.expires <= e.updated.Add(expiryNotice) { // the notice of the grant told the expiry
		return 0, nil
	}
	c := notice.Cause{Kind: notice.Role, What: what, Account: e.account, Node: e.node, Data: notice.Data{Role: string(e.role), Expires: e.expires}}
	if e.kind == access.Group {
		c.Group = drive.GroupID(e.principal)
	} else {
		c.User = drive.UserID(e.principal)
	}
	if what == notice.Ended {
		name, err := t.formerName(ctx, e)
		if err != nil {
			return 0, err
		}
		c.Data.Name = name
	}
	return t.notifyAll(ctx, notice.DerivedID(e.expires, string(what), e.node.String(), e.principal.String()), c, e.expires)
}

// formerName returns the name of a node at the time a role there expired; "" if the node has
// changed since or the role was not effective.
func (t *Notifier) formerName(ctx context.Context, e expiringRole) (string, error) {
	opens, err := access.IsEffective(ctx, t.parts.Access, t.parts.DB, access.Grant{Node: e.node, Account: e.account, Principal: e.principal, Kind: e.kind})
	if err != nil || !opens {
		return "", err
	}
	nodes, err := tree.ByID(ctx, t.parts.Tree, t.parts.DB, e.node)
	if err != nil {
		return "", err
	}
	n := nodes[e.node]
	if n.IsRoot() || n.Updated > e.expires {
		return "", nil
	}
	return string(n.Name), nil
}
