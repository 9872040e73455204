package notify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// What nobody does happens by itself: roles end, drives get full. It is found by looking, now and
// then, and told under an id that the next look makes again.

const (
	roleSoon  = 3 * 24 * time.Hour // before its end a role is told to end soon
	sweepPage = 500                // rows of one statement
	endsKept  = 7 * 24 * time.Hour // of a role that has ended, where its end cannot be told

	lookOver = 3 * time.Hour // after which a look that did not go on is begun once more: another process may have looked since

	mostFailed = 10   // roles whose end cannot be told: then it is not they who are to blame
	rolesRun   = 2000 // people whom one call tells of roles that end: some seconds

	metaRoles = "notices-roles" // up to which moments the ends of roles were told
)

// ending is a role that has an end.
type ending struct {
	node      drive.NodeID
	principal drive.PrincipalID
	kind      access.Kind
	account   drive.AccountID
	role      access.Role
	updated   drive.Time
	expires   drive.Time
}

// rolesLook is how far a look at roles that end is.
type rolesLook struct {
	most int // people whom one call tells, and the rest of a group

	mu         sync.Mutex
	left       []ends     // none: none is under way
	until, now drive.Time // what it is noted as
	at         drive.Time // of the last call
	failed     bool       // something could not be told: the next look begins where this one has
}

// ends are roles that end after one and until a moment, that one and those of its moment excepted
// that come before it.
type ends struct {
	what  notice.What
	after ending
	to    drive.Time
}

func between(what notice.What, from, to drive.Time) ends {
	return ends{what, ending{expires: from + 1}, to}
}

// Roles tells of roles that will end within days, and of those that have ended. It is called before
// those that have ended are deleted, and may be repeated. It may stop anywhere; more says that it
// is not through.
func (t *Teller) Roles(ctx context.Context) (more bool, err error) {
	l := &t.roles
	l.mu.Lock()
	defer l.mu.Unlock()
	now := t.now()
	if len(l.left) == 0 || now < l.at || now >= l.at.Add(lookOver) {
		if err := t.beginRoles(ctx, now); err != nil {
			return false, err
		}
	}
	l.at = now
	var failed []error
	for people := 0; len(l.left) > 0; {
		told, through, err := t.ends(ctx, &l.left[0])
		if people += told; err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			return true, errors.Join(failed...)
		}
		if l.failed = l.failed || err != nil; through {
			l.left = l.left[1:]
		}
		if people >= l.most && len(l.left) > 0 {
			return true, errors.Join(failed...)
		}
	}
	if l.failed { // the next look tells it: who was told already is not told twice
		return false, errors.Join(failed...)
	}
	return false, t.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return meta.Set(ctx, tx, metaRoles, fmt.Sprintf("%d %d", int64(l.until), int64(l.now)))
	})
}

// beginRoles begins a look where the last one has ended.
func (t *Teller) beginRoles(ctx context.Context, now drive.Time) error {
	soon, ended := now, now // of the first look: what has ended is told to nobody
	text, err := meta.Find(ctx, t.parts.DB, metaRoles)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return err
	}
	if a, b, ok := strings.Cut(text, " "); ok {
		soon, ended = max(moment(a), now), moment(b)
	}
	until := now.Add(roleSoon)
	if soon > until { // of a worker whose clock was ahead: what was told already has its id
		soon = now
	}
	if ended > now {
		ended = now.Add(-roleSoon)
	}
	l := &t.roles
	l.left, l.until, l.now, l.failed = []ends{between(notice.Ended, ended, now), between(notice.Ending, soon, until)}, until, now, false
	return nil
}

// Ended is up to which moment the ends of roles were told, before now: roles that have ended since
// are kept until they were. What could not be told for a week is told no more.
func (t *Teller) Ended(ctx context.Context, now time.Time) (time.Time, error) {
	least := now.Add(-endsKept)
	text, err := meta.Find(ctx, t.parts.DB, metaRoles)
	if drive.IsKind(err, drive.NotFound) {
		return least, nil
	}
	if err != nil {
		return least, err
	}
	_, b, _ := strings.Cut(text, " ")
	told := moment(b).Std()
	switch {
	case told.Before(least), told.After(t.parts.Now()): // the latter by a clock that was ahead
		return least, nil
	case told.After(now): // which is behind the wall clock
		return now, nil
	}
	return told, nil
}

func moment(s string) drive.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return drive.Time(n)
}

// ends tells of the next roles that end, and returns how many people that were.
func (t *Teller) ends(ctx context.Context, e *ends) (people int, through bool, err error) {
	after := e.after
	rows, err := t.parts.DB.Query(ctx, `SELECT node_id, principal_id, kind, account_id, role, updated_at, expires_at FROM grants
		WHERE expires_at > 0 AND expires_at >= ? AND expires_at <= ? AND (expires_at > ? OR node_id > ? OR node_id = ? AND principal_id > ?)
		ORDER BY expires_at, node_id, principal_id LIMIT ?`, after.expires, e.to, after.expires, after.node.String(), after.node.String(),
		after.principal.String(), sweepPage)
	all, err := sqldb.Scan(rows, err, func(e *ending, scan func(...any) error) error {
		return scan(&e.node, &e.principal, &e.kind, &e.account, &e.role, &e.updated, &e.expires)
	})
	if err != nil {
		return 0, true, fmt.Errorf("look for roles that end: %w", err)
	}
	var failed []error // one that cannot be told keeps no other one back
	for _, one := range all {
		if people >= t.roles.most {
			return people, false, errors.Join(failed...)
		}
		told, err := t.tellEnd(ctx, one, e.what)
		if people += told; err != nil {
			failed = append(failed, fmt.Errorf("tell of the role of %s at %s: %w", one.principal, one.node, err))
		}
		switch {
		case ctx.Err() != nil: // this one comes once more
			return people, false, errors.Join(failed...)
		case len(failed) == mostFailed:
			return people, true, errors.Join(failed...)
		}
		e.after = one
	}
	return people, len(all) < sweepPage, errors.Join(failed...)
}

func (t *Teller) tellEnd(ctx context.Context, e ending, what notice.What) (people int, err error) {
	if e.role.Rights() == 0 || what == notice.Ending && e.expires <= e.updated.Add(roleSoon) { // whoever was given it was told
		return 0, nil
	}
	c := notice.Cause{Kind: notice.Role, What: what, Account: e.account, Node: e.node, Data: notice.Data{Role: string(e.role), Expires: e.expires}}
	if e.kind == access.Group {
		c.Group = drive.GroupID(e.principal)
	} else {
		c.User = drive.UserID(e.principal)
	}
	if what == notice.Ended {
		name, err := t.nameUntil(ctx, e)
		if err != nil {
			return 0, err
		}
		c.Data.Name = name
	}
	return t.tellAll(ctx, notice.Named(e.expires, string(what), e.node.String(), e.principal.String()), c, e.expires)
}

// nameUntil is the name that a node had when a role ended there; empty where it may have got
// another one since, or where the role gave nothing.
func (t *Teller) nameUntil(ctx context.Context, e ending) (string, error) {
	opens, err := access.Opens(ctx, t.parts.Access, t.parts.DB, access.Grant{Node: e.node, Account: e.account, Principal: e.principal, Kind: e.kind})
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
