package signon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/admin"
)

// find returns the user of a person, and creates one for a new person. If the person is in none of
// the required groups, it revokes what the provider granted and fails with Forbidden
// {sign-on-group}.
func (s *SignOn) find(ctx context.Context, p person) (account.User, error) {
	user, err := s.parts.Users.FindByIdentity(ctx, s.parts.DB, p.identity)
	known := !drive.IsKind(err, drive.NotFound)
	if err != nil && known {
		return account.User{}, err
	}
	switch {
	case !p.mayCome(s.opt) && known:
		return account.User{}, errors.Join(s.putOut(ctx, user, p.identity), drive.Fail(drive.Forbidden, "reason", "sign-on-group"))
	case !p.mayCome(s.opt):
		return account.User{}, drive.Fail(drive.Forbidden, "reason", "sign-on-group")
	case known:
		return user, nil
	case !s.opt.Create:
		return account.User{}, drive.Fail(drive.Forbidden, "reason", "sign-on-unknown")
	}
	first := 0
	if p.chosen { // no numbered name: anybody could choose this name first and later be taken for the other person
		first = 1
		if _, err := s.isTaken(ctx, nameFor(p.name, 0), true); err != nil {
			return account.User{}, err
		}
	}
	for i := first; i < namesTried; i++ {
		name := nameFor(p.name, i)
		if taken, err := s.isTaken(ctx, name, i == 0); err != nil {
			return account.User{}, err
		} else if taken {
			continue
		}
		if user, err = s.create(ctx, p, name); !drive.IsKind(err, drive.NameTaken) {
			break
		}
	}
	if drive.IsKind(err, drive.WrongState) || drive.IsKind(err, drive.NameTaken) { // two first sign-ins of one person ran at once
		return s.parts.Users.FindByIdentity(ctx, s.parts.DB, p.identity)
	}
	return user, err
}

// isTaken reports whether a user has that name. If first is set and that user is not connected, it
// fails with Forbidden {sign-on-taken}: the user may be the same person, who would get a second
// user.
func (s *SignOn) isTaken(ctx context.Context, name string, first bool) (bool, error) {
	other, err := s.parts.Users.FindByName(ctx, s.parts.DB, name)
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	if err != nil || !first {
		return true, err
	}
	if is, err := s.IsConnected(ctx, other.ID); err != nil || is {
		return true, err
	}
	return true, drive.Fail(drive.Forbidden, "reason", "sign-on-taken", "name", other.Name)
}

// namesTried is how many names find tries for a new user.
const namesTried = 30

// nameFor returns the i-th name to try: the person's name, then with a number, at last with a
// random suffix.
func nameFor(name string, i int) string {
	switch {
	case i == 0:
		return name
	case i < namesTried-1:
		return name + "-" + strconv.Itoa(i+1)
	}
	return name + "-" + strings.ToLower(rand.Text()[:7])
}

// putOut removes the groups and rights that a user has by the provider, and ends the sessions that
// it vouched for. It may be repeated after an error.
func (s *SignOn) putOut(ctx context.Context, user account.User, as account.Identity) error {
	if _, err := s.follow(ctx, user, person{identity: as}); err != nil {
		return err
	}
	return s.parts.Users.EndVouched(ctx, user)
}

// create creates a user named name, connected to the person, in one transaction. The password is
// random and stored nowhere in plain. It fails with BadRequest if the name is not valid and with
// NameTaken if another user has it.
func (s *SignOn) create(ctx context.Context, p person, name string) (account.User, error) {
	user, err := s.parts.Admin.CreateUserAnd(ctx, admin.Local(), admin.NewUser{Name: name, Password: rand.Text()},
		func(ctx context.Context, tx *sqldb.Tx, user account.User) error {
			return s.parts.Users.Connect(ctx, tx, user, 0, p.identity)
		})
	if err != nil {
		return account.User{}, fmt.Errorf("make a user of who signed on: %w", err)
	}
	s.opt.Log.Info("who signed on for the first time is a user now", "user", user.ID, "name", user.Name)
	return user.User, nil
}

// follow applies the claims to a user: administrator rights and groups are granted or revoked. It
// returns the changed user. The last administrator, and the last manager of a space, keep their
// rights, which is logged.
func (s *SignOn) follow(ctx context.Context, user account.User, p person) (account.User, error) {
	if is := p.isIn(s.opt.Admins); len(s.opt.Admins) > 0 && is != user.Admin {
		changed, err := s.parts.Admin.SetUser(ctx, admin.Local(), user.ID, admin.Change{Admin: &is})
		switch {
		case drive.IsKind(err, drive.WrongState): // at least one administrator must remain to fix the configuration
			s.opt.Log.Warn("administrator role kept against the identity provider: the user is the last administrator", "user", user.ID)
		case err != nil:
			return account.User{}, fmt.Errorf("follow the provider in who is an administrator: %w", err)
		default:
			user = changed.User
		}
	}
	if err := s.followGroups(ctx, user, p); err != nil {
		return account.User{}, fmt.Errorf("follow the provider in who is in which group: %w", err)
	}
	return user, nil
}

// followGroups adds a user to the groups that the claims name, and removes the user from groups
// that an earlier sign-in added and the claims no longer name. Memberships added by hand stay.
// After a crash the next sign-in does the rest.
func (s *SignOn) followGroups(ctx context.Context, user account.User, p person) error {
	had, err := s.parts.Users.GroupsOfProvider(ctx, s.parts.DB, user.ID)
	if err != nil {
		return err
	}
	named, err := s.groupsNamed(ctx, p)
	if err != nil {
		return err
	}
	for _, group := range named {
		noted := slices.Contains(had, group.ID)
		had = slices.DeleteFunc(had, func(id drive.GroupID) bool { return id == group.ID })
		if err := s.addTo(ctx, user.ID, p.identity, group.ID, noted); err != nil {
			return err
		}
	}
	for _, group := range had {
		err := s.parts.Spaces.RemoveMember(ctx, admin.Local(), group, user.ID)
		if drive.IsKind(err, drive.WrongState) { // a space would lose its last manager
			s.opt.Log.Warn("group membership kept against the identity provider: a space would lose its last manager", "user", user.ID, "group", group)
			continue
		}
		if err != nil && !drive.IsKind(err, drive.NotFound) {
			return err
		}
		if err := s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			return s.parts.Users.ForgetGroup(ctx, tx, user.ID, group)
		}); err != nil {
			return err
		}
	}
	return nil
}

// addTo adds a user to a group. noted means that an earlier sign-in recorded this membership. A
// membership that exists without such a record was added by hand and stays unrecorded.
func (s *SignOn) addTo(ctx context.Context, user drive.UserID, as account.Identity, group drive.GroupID, noted bool) error {
	is, err := s.parts.Spaces.IsMember(ctx, admin.Local(), group, user)
	if err != nil || is {
		return err
	}
	if !noted {
		if err := s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			return s.parts.Users.NoteGroup(ctx, tx, user, as, group)
		}); err != nil {
			return err
		}
	}
	err = s.parts.Spaces.AddMember(ctx, admin.Local(), group, user)
	if drive.IsKind(err, drive.NotFound) || drive.IsKind(err, drive.TooManyOpen) { // the group is deleted or full; the sign-in succeeds nevertheless
		s.opt.Log.Warn("user not added to a group that the identity provider names: the group is deleted or full", "user", user, "group", group, "error", err)
		return nil
	}
	return err
}

// groupsNamed returns the groups of this installation that follow the provider and that the person
// is in by its claims. Groups that do not exist here are left out.
func (s *SignOn) groupsNamed(ctx context.Context, p person) (named []access.UserGroup, err error) {
	all := slices.Contains(s.opt.Groups, "*")
	for _, name := range p.groups {
		if !all && !slices.ContainsFunc(s.opt.Groups, func(g string) bool { return plainGroup(g) == name }) {
			continue
		}
		group, err := s.parts.Spaces.FindGroupByName(ctx, admin.Local(), name)
		if drive.IsKind(err, drive.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		named = append(named, group)
	}
	return named, nil
}
