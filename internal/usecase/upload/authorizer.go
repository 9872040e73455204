package upload

import (
	"context"
	"log/slog"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// ReasonRevoked is the reason of a gone upload whose sender lost the right to its folder.
const ReasonRevoked = "revoked"

// authorizer decides who may begin or continue an upload. An upload belongs to its account; within
// a shared space, a guest's upload can be continued only by that guest.
type authorizer struct {
	db      *sqldb.DB
	access  *access.Access
	tree    *tree.Tree
	now     func() drive.Time
	log     *slog.Logger
	reclaim func(ctx context.Context, l *liveUpload, row Row, reason string) (outcome, error) // Sessions.reclaim
}

// permit is a guest's right to continue an upload, as read from the database.
type permit struct {
	read  drive.Time // when it was read; zero: never
	stamp access.EpochStamp
	known bool       // stamp is valid
	until drive.Time // end of the right; zero: never
}

// permitTTL is how long a permit is trusted while changes by other instances are unknown.
const permitTTL = 5 * time.Second

// fresh reports whether a cached permit may still be used: no right has changed since, or where
// that is not known, it is younger than permitTTL. It does not access the database.
func (auth *authorizer) fresh(p permit) bool {
	now := auth.now()
	if p.read == 0 || p.until != 0 && p.until <= now {
		return false
	}
	if stamp, known := auth.access.Stamp(); known && p.known {
		return stamp == p.stamp
	}
	return now.Sub(p.read) < permitTTL
}

// authorizedLocked reports whether who may continue the cached upload, without access to the
// database. false without an error means that the caller must ask the database (authorize).
// NotFound means that the upload belongs to another user. The caller holds l.mu.
func (l *liveUpload) authorizedLocked(who drive.Who) (bool, error) {
	switch {
	case l.row.Account == who.Account:
		return true, nil
	case l.row.User != who.User:
		return false, drive.Fail(drive.NotFound)
	}
	return l.table.auth.fresh(l.permit), nil
}

// requiredUse returns the right that is needed to place a file under conflict rule c.
func requiredUse(c drive.Conflict) access.Use {
	if c == drive.ConflictReplace {
		return access.Replace
	}
	return access.Upload
}

// authorize checks in the database whether who may continue an upload. If the upload goes to
// another account than the caller's, it sets row.guest, and the permit says how long the caller's
// right may be cached; for the caller's own account the permit is zero. Errors: NotFound,
// Forbidden.
func (auth *authorizer) authorize(ctx context.Context, who drive.Who, row *Row) (permit, error) {
	switch {
	case row.Account == who.Account:
		return permit{}, nil
	case row.User != who.User:
		return permit{}, drive.Fail(drive.NotFound)
	}
	row.guest = true
	p := permit{read: auth.now()}
	p.stamp, p.known = auth.access.Stamp() // read before the right, so that a concurrent change invalidates the permit
	pass, err := auth.access.Enter(ctx, auth.db, who, row.Parent, requiredUse(row.Conflict))
	p.until = pass.Until
	return p, err
}

// authorizeOrReclaim checks in the database that who may continue the upload, and caches the
// permit. If a guest has lost the right, it reclaims an active or parked upload, which frees its
// reservation, and returns NotFound or Forbidden. It does not reclaim if the folder is only in the
// trash. It returns retry if a concurrent change of the row won. The caller holds the state lock.
func (auth *authorizer) authorizeOrReclaim(ctx context.Context, who drive.Who, l *liveUpload, row *Row) (outcome, error) {
	p, err := auth.authorize(ctx, who, row)
	if err == nil {
		l.mu.Lock()
		l.permit = p
		l.mu.Unlock()
		return finished, nil
	}
	lost := row.guest && drive.IsKind(err, drive.NotFound, drive.Forbidden)
	if !lost || row.State != Active && row.State != Parked {
		return finished, err
	}
	if trashed, failed := access.InTrash(ctx, auth.access, auth.db, who, row.Parent, requiredUse(row.Conflict)); failed != nil || trashed {
		return finished, err // the upload continues once its folder is restored
	}
	switch out, ended := auth.reclaim(context.WithoutCancel(ctx), l, *row, ReasonRevoked); {
	case ended != nil: // its timers end it later
		auth.log.WarnContext(ctx, "upload of a sender without access could not be ended; its timers end it later", "upload", row.ID, "error", ended)
	case out == retry:
		return retry, nil
	}
	return finished, err
}

// authorizeBegin checks that who may begin b. It returns a Who that acts on the target account, and
// b with a target within that account. Errors: NotFound, Forbidden.
func (auth *authorizer) authorizeBegin(ctx context.Context, who drive.Who, b Begin) (drive.Who, Begin, error) {
	switch {
	case b.Kind == Partial, b.Path != nil && b.Place == "":
		return who, b, nil
	case b.Path != nil:
		return auth.authorizePath(ctx, who, b)
	}
	pass, err := auth.access.Enter(ctx, auth.db, who, b.Parent, requiredUse(b.Conflict))
	if err == nil && pass.Who.Guest && b.Conflict == drive.ConflictReplace {
		err = auth.authorizeReplace(ctx, who, pass.Who.Account, b.Parent, b.Name)
	}
	return pass.Who, b, err
}

// authorizeReplace returns the error that forbids replacing the file name in parent, which may have
// grants of its own. It returns nil if there is no such file.
func (auth *authorizer) authorizeReplace(ctx context.Context, who drive.Who, account drive.AccountID, parent drive.NodeID, name drive.Name) error {
	there, found, err := auth.tree.Child(ctx, auth.db, account, parent, name)
	if err != nil || !found {
		return err
	}
	_, err = auth.access.Enter(ctx, auth.db, who, there.ID, access.Replace)
	return err
}

// mayPut checks, in the publishing transaction, that a guest may put a file at its target. The
// target may have moved since authorizeBegin.
func (auth *authorizer) mayPut(ctx context.Context, q sqldb.Querier, row Row, at tree.Target) error {
	if !row.guest {
		return nil
	}
	node := at.Folder
	if !at.Existing.ID.IsZero() && row.Conflict == drive.ConflictReplace {
		node = at.Existing.ID
	}
	_, err := auth.access.Enter(ctx, q, drive.Who{User: row.User, Account: row.Account, Guest: true}, node, requiredUse(row.Conflict))
	return err
}

// mayPutAll checks, in the publishing transaction, that guests may put new files at their targets.
// It checks each combination of user, folder and conflict rule once. Errors: NotFound, Forbidden.
func (auth *authorizer) mayPutAll(ctx context.Context, q sqldb.Querier, all []*pendingFile, at []tree.Target) error {
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
		if err := auth.mayPut(ctx, q, a.row, at[i]); err != nil {
			return err
		}
		asked[k] = true
	}
	return nil
}

// authorizePath checks that who may begin an upload to a path in another drive. The right at the
// deepest existing folder of the path decides. It returns a Who that acts on the target account,
// and b with the path in that account. Errors: NotFound, Forbidden.
func (auth *authorizer) authorizePath(ctx context.Context, who drive.Who, b Begin) (drive.Who, Begin, error) {
	to, err := auth.access.Find(ctx, auth.db, who, drive.Address{Place: b.Place, Path: b.Path})
	if err != nil {
		return who, b, err
	}
	last, rest, err := auth.tree.Deepest(ctx, auth.db, to.Account, to.Path)
	if err != nil {
		return who, b, err
	}
	at := last.ID
	if len(rest) == 0 && b.Conflict != drive.ConflictReplace && !last.IsRoot() {
		at = last.Parent // the name is taken: the folder decides
	}
	pass, err := auth.access.Enter(ctx, auth.db, who, at, requiredUse(b.Conflict))
	if err == nil && len(rest) > 1 && !b.Parents {
		err = drive.Fail(drive.NotFound)
	}
	b.Path, b.Place = to.Path, ""
	return pass.Who, b, err
}

// mayMove checks that an upload may get another target folder; NotFound if its sender may not see
// the folder. A zero parent or empty c keeps the current value.
func (auth *authorizer) mayMove(ctx context.Context, who drive.Who, row Row, parent drive.NodeID, c drive.Conflict) error {
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
	pass, err := auth.access.Enter(ctx, auth.db, who, parent, requiredUse(c))
	if err == nil && !own && pass.Who.Account != row.Account {
		err = drive.Fail(drive.NotFound)
	}
	return err
}

// redactFor returns the view as shown to who: a guest sees the folder's id instead of its path.
func (v View) redactFor(who drive.Who) View {
	if v.row.Account != who.Account && !v.row.Account.IsZero() {
		v.Path = v.row.guestPath()
	}
	return v
}

// guestPath returns the file's address relative to the id of its folder.
func (r Row) guestPath() string {
	return drive.Address{Place: r.Parent.String(), Path: drive.Path{r.Name}}.String()
}
