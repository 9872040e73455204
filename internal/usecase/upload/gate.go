package upload

import (
	"context"
	"log/slog"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// ReasonRevoked is why an upload is gone whose sender may not send to its folder any more.
const ReasonRevoked = "revoked"

// gate decides who may begin an upload, and who may go on with one. An upload is its account's, and
// a guest's own: nobody else of a space fills what one member has begun.
type gate struct {
	db     *sqldb.DB
	access *access.Access
	tree   *tree.Tree
	now    func() drive.Time
	log    *slog.Logger
	end    func(ctx context.Context, l *live, row Row, reason string) (outcome, error) // Sessions.reclaim
}

// permit is a guest's right to go on with an upload, as it was read.
type permit struct {
	read  drive.Time
	stamp access.Stamp
	known bool       // stamp says something
	until drive.Time // the right ends then; zero: never
}

// trustPermit is how long a permit may be acted on while it is not known what others change.
const trustPermit = 5 * time.Second

// holds reports whether a permit may still be acted on. No database is asked.
func (g *gate) holds(p permit) bool {
	now := g.now()
	if p.read == 0 || p.until != 0 && p.until <= now {
		return false
	}
	if stamp, known := g.access.Stamp(); known && p.known {
		return stamp == p.stamp
	}
	return now.Sub(p.read) < trustPermit
}

// mayLocked says of an upload in memory whether somebody may go on with it: NotFound when it is not
// theirs, false when that must be asked. The caller holds l.mu.
func (l *live) mayLocked(who drive.Who) (bool, error) {
	switch {
	case l.row.Account == who.Account:
		return true, nil
	case l.row.User != who.User:
		return false, drive.Fail(drive.NotFound)
	}
	return l.of.gate.holds(l.permit), nil
}

// useOf is what one must be allowed to place a file.
func useOf(c drive.Conflict) access.Use {
	if c == drive.ConflictReplace {
		return access.Replace
	}
	return access.Upload
}

// check asks whether somebody may go on with an upload, and notes that it is a guest's.
func (g *gate) check(ctx context.Context, who drive.Who, row *Row) (permit, error) {
	switch {
	case row.Account == who.Account:
		return permit{}, nil
	case row.User != who.User:
		return permit{}, drive.Fail(drive.NotFound)
	}
	row.guest = true
	p := permit{read: g.now()}
	p.stamp, p.known = g.access.Stamp() // before the question: what changes meanwhile is asked for again
	pass, err := g.access.Enter(ctx, g.db, who, row.Parent, useOf(row.Conflict))
	p.until = pass.Until
	return p, err
}

// let is check for one who holds the turn. An upload whose sender has lost the right is ended: its
// reservation goes back.
func (g *gate) let(ctx context.Context, who drive.Who, l *live, row *Row) (outcome, error) {
	p, err := g.check(ctx, who, row)
	if err == nil {
		l.mu.Lock()
		l.permit = p
		l.mu.Unlock()
		return settled, nil
	}
	lost := row.guest && drive.IsKind(err, drive.NotFound, drive.Forbidden)
	if !lost || row.State != Active && row.State != Parked {
		return settled, err
	}
	if trashed, failed := access.Trashed(ctx, g.access, g.db, who, row.Parent, useOf(row.Conflict)); failed != nil || trashed {
		return settled, err // an upload goes on when its folder is restored
	}
	switch out, ended := g.end(context.WithoutCancel(ctx), l, *row, ReasonRevoked); {
	case ended != nil: // its timers end it
		g.log.WarnContext(ctx, "end an upload whose sender may not send any more", "upload", row.ID, "error", ended)
	case out == again:
		return again, nil
	}
	return settled, err
}

// enter lets somebody begin an upload: the Who that it returns acts on the account that the file
// goes to, and the place is one in that account.
func (g *gate) enter(ctx context.Context, who drive.Who, b Begin) (drive.Who, Begin, error) {
	switch {
	case b.Kind == Partial, b.Path != nil && b.Place == "":
		return who, b, nil
	case b.Path != nil:
		return g.enterPath(ctx, who, b)
	}
	pass, err := g.access.Enter(ctx, g.db, who, b.Parent, useOf(b.Conflict))
	if err == nil && pass.Who.Guest && b.Conflict == drive.ConflictReplace {
		err = g.enterThere(ctx, who, pass.Who.Account, b.Parent, b.Name)
	}
	return pass.Who, b, err
}

// enterThere checks that a file which is to be replaced may be: it may have grants of its own.
func (g *gate) enterThere(ctx context.Context, who drive.Who, account drive.AccountID, parent drive.NodeID, name drive.Name) error {
	there, found, err := g.tree.Child(ctx, g.db, account, parent, name)
	if err != nil || !found {
		return err
	}
	_, err = g.access.Enter(ctx, g.db, who, there.ID, access.Replace)
	return err
}

// mayPut asks, in the transaction that puts a guest's file there, whether it may go to where its
// path leads by then. Others may have moved folders since enter has looked.
func (g *gate) mayPut(ctx context.Context, q sqldb.Querier, row Row, at tree.Target) error {
	if !row.guest {
		return nil
	}
	node := at.Folder
	if !at.There.ID.IsZero() && row.Conflict == drive.ConflictReplace {
		node = at.There.ID
	}
	_, err := g.access.Enter(ctx, q, drive.Who{User: row.User, Account: row.Account, Guest: true}, node, useOf(row.Conflict))
	return err
}

// mayPutAll is mayPut for files that are new, one answer for those of somebody in the same folder.
func (g *gate) mayPutAll(ctx context.Context, q sqldb.Querier, all []*arrival, at []tree.Target) error {
	type key struct {
		user     drive.UserID
		folder   drive.NodeID
		conflict drive.Conflict
	}
	asked := map[key]bool{}
	for i, a := range all {
		k := key{a.row.User, at[i].Folder, a.row.Conflict}
		if !a.row.guest || asked[k] {
			continue
		}
		if err := g.mayPut(ctx, q, a.row, at[i]); err != nil {
			return err
		}
		asked[k] = true
	}
	return nil
}

// enterPath is enter for a path in another place: the right is that at the last folder that there
// is.
func (g *gate) enterPath(ctx context.Context, who drive.Who, b Begin) (drive.Who, Begin, error) {
	to, err := g.access.Find(ctx, g.db, who, drive.Address{Place: b.Place, Path: b.Path})
	if err != nil {
		return who, b, err
	}
	last, rest, err := g.tree.Deepest(ctx, g.db, to.Account, to.Path)
	if err != nil {
		return who, b, err
	}
	at := last.ID
	if len(rest) == 0 && b.Conflict != drive.ConflictReplace && !last.IsRoot() {
		at = last.Parent // the name is taken: the folder decides what that means
	}
	pass, err := g.access.Enter(ctx, g.db, who, at, useOf(b.Conflict))
	if err == nil && len(rest) > 1 && !b.Parents {
		err = drive.Fail(drive.NotFound)
	}
	b.Path, b.Place = to.Path, ""
	return pass.Who, b, err
}

// mayGo checks that an upload may go to another folder: one that its sender may not see is
// NotFound, as one that is not there.
func (g *gate) mayGo(ctx context.Context, who drive.Who, row Row, parent drive.NodeID, c drive.Conflict) error {
	own := row.Account == who.Account
	if parent.IsZero() && (own || c == "") {
		return nil
	}
	if parent.IsZero() {
		parent = row.Parent
	}
	if c == "" {
		c = row.Conflict
	}
	pass, err := g.access.Enter(ctx, g.db, who, parent, useOf(c))
	if err == nil && !own && pass.Who.Account != row.Account {
		err = drive.Fail(drive.NotFound)
	}
	return err
}

// as shows an upload to somebody: a guest is told no path of the account, but the folder.
func (v View) as(who drive.Who) View {
	if v.row.Account != who.Account && !v.row.Account.IsZero() {
		v.Path = v.row.guestPath()
	}
	return v
}

// guestPath is the address of the file by the id of its folder.
func (r Row) guestPath() string {
	return drive.Address{Place: r.Parent.String(), Path: drive.Path{r.Name}}.String()
}
