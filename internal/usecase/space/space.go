package space

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/turn"
)

// Parts are the components that Spaces uses.
type Parts struct {
	DB     *sqldb.DB
	Access *access.Access
	Users  *account.Users
	Tree   *tree.Tree
	Ledger quota.Ledger
	Log    *activity.Log // nil: nothing is recorded
	// Events receives the causes of notifications. Nil: none are sent.
	Events stream.Publisher
	// Busy returns an error to refuse the deletion of an account that gives or receives a handover.
	// It is called with the lock on the account's ledger. Default: never.
	Busy func(ctx context.Context, q sqldb.Querier, account drive.AccountID) error
}

// Options configures New. The zero value of each field selects its default.
type Options struct {
	// DefaultQuota returns the quota of a new space created without one; nil for unlimited.
	// Default: unlimited.
	DefaultQuota func() *drive.ByteSize
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Spaces implements the use cases of sharing. It is safe for concurrent use.
type Spaces struct {
	parts    Parts
	opt      Options
	searches *turn.RateLimiter[drive.UserID]
}

// New returns a Spaces.
func New(parts Parts, opt Options) *Spaces {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.DefaultQuota == nil {
		opt.DefaultQuota = func() *drive.ByteSize { return nil }
	}
	if parts.Busy == nil {
		parts.Busy = func(context.Context, sqldb.Querier, drive.AccountID) error { return nil }
	}
	return &Spaces{parts, opt, turn.NewRateLimiter[drive.UserID](searchBurst, searchInterval, maxSearchers)}
}

// View is a space as a member or an administrator sees it.
type View struct {
	access.Space

	Rights  access.Right // of the caller; zero: an administrator who is not a member
	Balance quota.Balance
}

// Total is an optional quota in a request.
type Total struct {
	Given bool            // false: not in the request
	Bytes *drive.ByteSize // nil: unlimited
}

// NewSpace describes a space to create: its name, its quota and the user who becomes its manager.
type NewSpace struct {
	Name    string
	Total   Total
	Manager drive.UserID // zero: the caller
}

// Hook runs at the end of the transaction of a creating call. A head uses it to store an
// idempotency key atomically with the effect. A nil Hook does nothing; an error rolls the
// transaction back.
type Hook[V any] func(ctx context.Context, tx *sqldb.Tx, v V) error

// run calls h within tx and returns its error, which must roll tx back. A nil h does nothing.
func (h Hook[V]) run(ctx context.Context, tx *sqldb.Tx, v V) error {
	if h == nil {
		return nil
	}
	return h(ctx, tx, v)
}

// requireAdmin returns Forbidden unless the caller is an administrator.
func requireAdmin(who drive.Who) error {
	if !who.Admin {
		return drive.Fail(drive.Forbidden)
	}
	return nil
}

// Create creates a space with its ledger, tree and first manager in one transaction. Only
// administrators may. It fails with NameTaken.
func (s *Spaces) Create(ctx context.Context, who drive.Who, in NewSpace, hook Hook[View]) (v View, err error) {
	if err := requireAdmin(who); err != nil {
		return View{}, err
	}
	total := s.opt.DefaultQuota()
	if in.Total.Given {
		total = in.Total.Bytes
	}
	if in.Manager.IsZero() {
		in.Manager = who.User
	}
	id := drive.NewID[drive.AccountID]()
	err = s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if err := s.parts.Users.CreateAccount(ctx, tx, id); err != nil {
			return err
		}
		if err := s.parts.Ledger.Create(ctx, tx, id, total); err != nil {
			return err
		}
		root, err := s.parts.Tree.Create(ctx, tx, id)
		if err != nil {
			return err
		}
		if v.Space, err = s.parts.Access.CreateSpace(ctx, tx, access.Space{ID: id, Root: root, Name: in.Name, By: who.User}); err != nil {
			return err
		}
		_, err = s.parts.Access.Grant(ctx, tx, access.Grant{
			Node: root, Account: id, Principal: drive.PrincipalID(in.Manager), Kind: access.User, Role: access.Manager, By: who.User,
		})
		if err != nil {
			return err
		}
		if in.Manager == who.User {
			v.Rights = access.All
		}
		if v.Balance, err = s.parts.Ledger.Get(ctx, tx, id); err != nil {
			return err
		}
		if err := s.parts.Log.Record(tx, activity.Entry{Account: id, Verb: activity.SpaceCreated, By: who, Name: in.Name}, nil); err != nil {
			return err
		}
		return hook.run(ctx, tx, v)
	})
	return v, err
}

// List returns the spaces that the caller is a member of, by name, with their balances. None is an
// empty result.
func (s *Spaces) List(ctx context.Context, who drive.Who) ([]View, error) {
	all, err := s.parts.Access.ListMemberships(ctx, s.parts.DB, who.User)
	if err != nil {
		return nil, err
	}
	views := make([]View, len(all))
	for i, m := range all {
		views[i] = View{Space: m.Space, Rights: m.Rights}
	}
	return s.withBalances(ctx, views)
}

// ListAll returns a page of all spaces to an administrator, and the cursor of the next page; ""
// after the last.
func (s *Spaces) ListAll(ctx context.Context, who drive.Who, cursor string, limit int) ([]View, string, error) {
	if err := requireAdmin(who); err != nil {
		return nil, "", err
	}
	all, err := s.parts.Access.ListSpaces(ctx, s.parts.DB, cursor, limit+1)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(all) > limit {
		all = all[:limit]
		next = access.SpaceCursor(all[limit-1])
	}
	views, err := s.adminViews(ctx, all)
	return views, next, err
}

// ListDeleted returns up to limit deleted spaces that can be restored to an administrator, oldest
// deletion first.
func (s *Spaces) ListDeleted(ctx context.Context, who drive.Who, limit int) ([]View, error) {
	if err := requireAdmin(who); err != nil {
		return nil, err
	}
	all, err := s.parts.Access.ListDeletedSpaces(ctx, s.parts.DB, drive.TimeOf(s.opt.Now().Add(time.Second)), limit)
	if err != nil {
		return nil, err
	}
	return s.adminViews(ctx, all)
}

// adminViews returns views of spaces with their balances and without rights, as an administrator
// sees them.
func (s *Spaces) adminViews(ctx context.Context, all []access.Space) ([]View, error) {
	views := make([]View, len(all))
	for i, one := range all {
		views[i] = View{Space: one}
	}
	return s.withBalances(ctx, views)
}

// withBalances adds the balances, with one statement for some hundred spaces. Spaces purged
// meanwhile are dropped.
func (s *Spaces) withBalances(ctx context.Context, views []View) ([]View, error) {
	ids := make([]drive.AccountID, len(views))
	for i, v := range views {
		ids[i] = v.ID
	}
	balances, err := s.parts.Ledger.GetMany(ctx, s.parts.DB, ids...)
	if err != nil {
		return nil, err
	}
	some := views[:0]
	for _, v := range views {
		var there bool
		if v.Balance, there = balances[v.ID]; there { // else purged since it was listed
			some = append(some, v)
		}
	}
	return some, nil
}

// Find returns a space with its balance to a member or an administrator. It returns NotFound to
// others.
func (s *Spaces) Find(ctx context.Context, who drive.Who, id drive.AccountID) (View, error) {
	return s.find(ctx, s.parts.DB, who, id)
}

// find returns a space, read from the given database or transaction. An administrator gets also
// spaces without a role there, with no rights in the View; other callers get NotFound.
func (s *Spaces) find(ctx context.Context, q sqldb.Querier, who drive.Who, id drive.AccountID) (View, error) {
	one, err := s.parts.Access.FindSpace(ctx, q, id)
	if err != nil {
		return View{}, err
	}
	v := View{Space: one}
	p, err := s.parts.Access.At(ctx, q, who, one.Root)
	switch {
	case err == nil:
		v.Rights = p.Rights
	case !drive.IsKind(err, drive.NotFound) || !who.Admin:
		return View{}, err
	}
	v.Balance, err = s.parts.Ledger.Get(ctx, q, id)
	return v, err
}

// Change is a change of a space; an absent field stays unchanged.
type Change struct {
	Name  string
	State access.State // Active or Archived
	Total Total
	// Settings may be changed by managers.
	Settings access.SettingsChange
}

// Set changes a space and returns its new view. Managers may rename, archive and configure it. Only
// administrators may change the quota, unarchive it, or restore it within 30 days of its deletion.
// It fails with Forbidden, NotFound, NameTaken, or BadRequest for an invalid name, state or
// setting.
func (s *Spaces) Set(ctx context.Context, who drive.Who, id drive.AccountID, c Change) (v View, err error) {
	if c.State != "" && c.State != access.Active && c.State != access.Archived {
		return View{}, drive.BadField("state", drive.NotAllowed, "allowed", []access.State{access.Active, access.Archived}, "sent", c.State)
	}
	err = s.write(ctx, who, id, func(ctx context.Context, tx *sqldb.Tx) error {
		now, err := s.find(ctx, tx, who, id)
		if err != nil {
			return err
		}
		if now.State == access.Deleted && now.Deleted.Add(DeletedRetention-time.Hour) <= drive.TimeOf(s.opt.Now()) {
			return drive.Fail(drive.NotFound) // its data is being purged, or may be at any moment
		}
		manages := now.Rights.Has(access.Manage)
		if !who.Admin && (!manages || c.Total.Given || c.State == access.Active && now.State != access.Active) {
			return drive.Fail(drive.Forbidden, "reason", "role", "role", string(now.Rights.Role()), "needs", string(access.Manager))
		}
		if c.Total.Given {
			if err := s.parts.Ledger.SetTotal(ctx, tx, id, c.Total.Bytes); err != nil {
				return err
			}
		}
		if c.Name != "" || c.State != "" || c.Settings != (access.SettingsChange{}) {
			if _, err := s.parts.Access.ChangeSpace(ctx, tx, id, access.SpaceChange{Name: c.Name, State: c.State, Settings: c.Settings}); err != nil {
				return err
			}
		}
		if v, err = s.find(ctx, tx, who, id); err != nil {
			return err
		}
		return s.logChange(tx, now, v)
	})
	return v, err
}

// DeletedRetention is how long a deleted space can be restored: 30 days.
const DeletedRetention = 30 * 24 * time.Hour

// Delete deletes a space: members lose it at once, and its data is purged after DeletedRetention.
// Only administrators may. A deleted space stays deleted. It fails with the error of Parts.Busy.
func (s *Spaces) Delete(ctx context.Context, who drive.Who, id drive.AccountID) error {
	if err := requireAdmin(who); err != nil {
		return err
	}
	return s.write(ctx, who, id, func(ctx context.Context, tx *sqldb.Tx) error {
		was, err := s.parts.Access.FindSpace(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := s.parts.Busy(ctx, tx, id); err != nil {
			return err
		}
		now, err := s.parts.Access.ChangeSpace(ctx, tx, id, access.SpaceChange{State: access.Deleted})
		if err != nil {
			return err
		}
		return s.logChange(tx, View{Space: was}, View{Space: now})
	})
}

// logChange records within tx, as activity, the differences between two states of a space. It
// records nothing if there are none.
func (s *Spaces) logChange(tx *sqldb.Tx, was, now View) error {
	data := map[string]any{}
	if was.Name != now.Name {
		data["was_name"] = was.Name
	}
	if was.State != now.State {
		data["state"], data["was_state"] = now.State, was.State
	}
	if was.Balance.Total != now.Balance.Total {
		data["total"], data["was_total"] = now.Balance.Total, was.Balance.Total
	}
	if was.Settings != now.Settings {
		data["settings"], data["was_settings"] = settingsData(now.Settings), settingsData(was.Settings)
	}
	if len(data) == 0 {
		return nil
	}
	return s.parts.Log.Record(tx, activity.Entry{Account: now.ID, Verb: activity.SpaceChanged, Name: now.Name}, data)
}

// settingsData returns settings as recorded in an activity entry.
func settingsData(s access.Settings) map[string]any {
	return map[string]any{"links": s.Links, "outward": s.ShareOutside, "trash_days": s.TrashDays, "version_days": s.VersionDays}
}

// write runs fn in a transaction that holds the lock on the account's ledger. fn may run several
// times; its error rolls back and is returned.
func (s *Spaces) write(ctx context.Context, who drive.Who, account drive.AccountID, fn func(context.Context, *sqldb.Tx) error) error {
	return s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if err := s.parts.Ledger.Lock(ctx, tx, account); err != nil {
			return fmt.Errorf("change account %s: %w", account, err)
		}
		return fn(ctx, tx)
	})
}

// writeAt runs fn in a transaction on the account of a node that the caller may see; with admin, an
// administrator may name the root of any space. fn authorizes again under the lock, so that the
// result holds until commit.
func (s *Spaces) writeAt(ctx context.Context, who drive.Who, node drive.NodeID, admin bool, fn func(context.Context, *sqldb.Tx) error) error {
	p, err := s.parts.Access.At(ctx, s.parts.DB, who, node)
	account := p.Who.Account
	if admin && who.Admin && drive.IsKind(err, drive.NotFound) {
		account, err = s.spaceOf(ctx, s.parts.DB, node)
	}
	if err != nil {
		return err
	}
	return s.write(ctx, who, account, fn)
}
