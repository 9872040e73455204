package space

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// notifyGrant notifies a principal that its role at a node has changed. A role None for a principal
// without a role there is not notified, because the notification would reveal the node.
func (s *Spaces) notifyGrant(ctx context.Context, tx *sqldb.Tx, n tree.Node, was, now access.Grant) error {
	had, has := was.Role.Rights(), now.Role.Rights()
	if was.Expires != 0 && was.Expires <= drive.TimeOf(s.opt.Now()) {
		had = 0
	}
	c := notice.Cause{Kind: notice.Role, What: notice.Changed, Account: n.Account, Node: n.ID, By: now.By, Data: notice.Data{Role: string(now.Role), Expires: now.Expires}}
	to := now
	switch {
	case has == 0 && had == 0, now.Role == was.Role && now.Expires == was.Expires:
		return nil
	case has == 0:
		to, c.What, c.Data = was, notice.Taken, notice.Data{Role: string(was.Role)}
		name, err := s.revokedName(ctx, tx, n, was)
		if err != nil {
			return err
		}
		c.Data.Name = name
	case had == 0:
		c.What, c.Kind = notice.Given, notice.Share
		if n.IsRoot() {
			c.Kind = notice.Space
		}
	}
	if to.Kind == access.Group {
		c.Group = drive.GroupID(to.Principal)
	} else {
		c.User = drive.UserID(to.Principal)
	}
	return s.notify(ctx, tx, c)
}

// revokedName returns the name of a node whose role was revoked; "" if the role was not effective
// and its holder may not know the name.
func (s *Spaces) revokedName(ctx context.Context, tx *sqldb.Tx, n tree.Node, was access.Grant) (string, error) {
	opens, err := access.IsEffective(ctx, s.parts.Access, tx, was)
	if err != nil || !opens {
		return "", err
	}
	if !n.IsRoot() {
		return string(n.Name), nil
	}
	one, err := s.parts.Access.FindSpace(ctx, tx, n.Account) // the root of a space has no name; the space has
	return one.Name, err
}

// membershipChange is a user who is added to or removed from a group.
type membershipChange struct {
	by    drive.Who
	group drive.GroupID
	user  drive.UserID
}

// changeMembership runs a change of a group and notifies the user if the user's membership has
// changed.
func (s *Spaces) changeMembership(ctx context.Context, tx *sqldb.Tx, m membershipChange, change func() error) error {
	was, err := s.parts.Access.IsInGroup(ctx, tx, m.group, m.user)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	is, err := s.parts.Access.IsInGroup(ctx, tx, m.group, m.user)
	if err != nil || is == was {
		return err
	}
	t, err := s.parts.Access.FindGroup(ctx, tx, m.group)
	if err != nil {
		return err
	}
	what := notice.Given
	if was {
		what = notice.Taken
	}
	return s.notify(ctx, tx, notice.Cause{
		Kind: notice.Group, What: what, Account: m.by.Account, By: m.by.User, User: m.user, Data: notice.Data{Name: t.Name, Subject: m.group.String()},
	})
}

// notifyMembers notifies the members of a group that is about to be deleted. The causes list them,
// because the group is gone when the causes are handled.
func (s *Spaces) notifyMembers(ctx context.Context, tx *sqldb.Tx, by drive.Who, id drive.GroupID) error {
	t, err := s.parts.Access.FindGroup(ctx, tx, id)
	if err != nil || s.parts.Events == nil {
		return err
	}
	for after := (drive.UserID{}); ; {
		some, err := s.parts.Access.ListMembers(ctx, tx, id, after, notice.MaxUsers)
		if err != nil || len(some) == 0 {
			return err
		}
		c := notice.Cause{Kind: notice.Group, What: notice.Taken, Account: by.Account, By: by.User, Data: notice.Data{Name: t.Name, Subject: id.String()}}
		for _, p := range some {
			c.Users, after = append(c.Users, p.ID), p.ID
		}
		if err := s.notify(ctx, tx, c); err != nil {
			return err
		}
	}
}

// notify appends to the outbox, within tx, a cause whose recipients are then notified. It does
// nothing if Parts.Events is nil.
func (s *Spaces) notify(ctx context.Context, tx *sqldb.Tx, c notice.Cause) error {
	if s.parts.Events == nil {
		return nil
	}
	record, err := notice.NewRecord(c)
	if err != nil {
		return err
	}
	return s.parts.Events.Append(ctx, tx, record)
}
