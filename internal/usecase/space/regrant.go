package space

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/engine/sqldb"
)

// GrantChange is a change of a role that was given; nil stays as it is.
type GrantChange struct {
	// Role says what becomes of the role: it is told the one that is there within the transaction,
	// None where there is none, and may be asked more than once.
	Role  func(now access.Role) (access.Role, error)
	Note  *string
	Until *drive.Time // zero: for ever
	New   bool        // who has no role is given one, instead of NotFound
}

// ChangeGrant changes a role that a principal has at a node, by the rules of Grant. What others
// change meanwhile stays. NotFound: there is none.
func (s *Spaces) ChangeGrant(ctx context.Context, who drive.Who, node drive.NodeID, to Principal, c GrantChange) (g access.Grant, err error) {
	err = s.writeAt(ctx, who, node, false, func(ctx context.Context, tx *sqldb.Tx) error {
		m, err := s.mayGrant(ctx, tx, who, node, false)
		if err != nil {
			return err
		}
		principal, err := s.principal(ctx, tx, to)
		if err != nil {
			return err
		}
		g, err = s.lasting(ctx, tx, node, principal)
		if c.New && (drive.IsKind(err, drive.NotFound) || err == nil && g.Role == access.None) {
			g, err = access.Grant{Node: m.node.ID, Account: m.node.Account, Principal: principal, Kind: to.Kind, Role: access.None}, nil
		}
		if err != nil {
			return err
		}
		g.By = who.User
		if c.Role != nil {
			if g.Role, err = c.Role(g.Role); err != nil {
				return err
			}
		}
		if c.Note != nil {
			g.Note = *c.Note
		}
		if c.Until != nil {
			g.Expires = *c.Until
		}
		g, err = s.set(ctx, tx, m, g)
		return err
	})
	return g, err
}

// Member returns a principal's role at a node, to those who may list them. NotFound: there is none,
// or it has ended.
func (s *Spaces) Member(ctx context.Context, who drive.Who, node drive.NodeID, principal drive.PrincipalID) (access.Grant, error) {
	if _, err := s.parts.Access.Enter(ctx, s.parts.DB, who, node, access.SeeAccess); err != nil {
		return access.Grant{}, err
	}
	return s.lasting(ctx, s.parts.DB, node, principal)
}

// lasting finds a role that has not ended.
func (s *Spaces) lasting(ctx context.Context, q sqldb.Querier, node drive.NodeID, principal drive.PrincipalID) (access.Grant, error) {
	g, err := s.parts.Access.FindGrant(ctx, q, node, principal)
	if err == nil && g.Expires != 0 && g.Expires <= drive.TimeOf(s.opt.Now()) {
		err = drive.Fail(drive.NotFound)
	}
	return g, err
}
