package space

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/engine/sqldb"
)

// GrantChange is a change of a grant; a nil field stays unchanged.
type GrantChange struct {
	// Role returns the new role for the current one (None: no role). It runs in the transaction and
	// may be called more than once.
	Role  func(now access.Role) (access.Role, error)
	Note  *string
	Until *drive.Time // expiry; zero: it does not expire
	New   bool        // give a role to a principal without one, instead of NotFound
}

// ChangeGrant changes a principal's role at a node. The caller must be a manager or own the drive,
// and cannot give a role for longer than the caller's own right lasts. Concurrent changes of other
// fields are kept. It fails with NotFound if there is no role and c.New is not set, and with the
// errors of Grant.
func (s *Spaces) ChangeGrant(ctx context.Context, who drive.Who, node drive.NodeID, to Principal, c GrantChange) (g access.Grant, err error) {
	err = s.writeAt(ctx, who, node, false, func(ctx context.Context, tx *sqldb.Tx) error {
		m, err := s.authorizeGrant(ctx, tx, who, node, false)
		if err != nil {
			return err
		}
		principal, err := s.principal(ctx, tx, to)
		if err != nil {
			return err
		}
		g, err = s.findActive(ctx, tx, node, principal)
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
		g, err = s.setGrant(ctx, tx, m, g)
		return err
	})
	return g, err
}

// Member returns a principal's grant at a node to callers who may list grants. It fails with
// NotFound if there is none or it has expired.
func (s *Spaces) Member(ctx context.Context, who drive.Who, node drive.NodeID, principal drive.PrincipalID) (access.Grant, error) {
	if _, err := s.parts.Access.Enter(ctx, s.parts.DB, who, node, access.SeeAccess); err != nil {
		return access.Grant{}, err
	}
	return s.findActive(ctx, s.parts.DB, node, principal)
}

// findActive returns the grant of a principal at a node. It returns NotFound if there is none or it
// has expired.
func (s *Spaces) findActive(ctx context.Context, q sqldb.Querier, node drive.NodeID, principal drive.PrincipalID) (access.Grant, error) {
	g, err := s.parts.Access.FindGrant(ctx, q, node, principal)
	if err == nil && g.Expires != 0 && g.Expires <= drive.TimeOf(s.opt.Now()) {
		err = drive.Fail(drive.NotFound)
	}
	return g, err
}
