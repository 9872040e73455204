package columns

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
)

const (
	mostFolders = 150 // of a world
	mostGrants  = 60
)

// change requests a change that needs a right, and compares the outcome with the right that p has.
// ok reports that the change was made; the model must then be updated.
func (s *society) change(what string, p citizen, has, needs access.Right, method, path string, in any) (answer []byte, ok bool) {
	status, answer := s.send(s.at, p.token, method, "/api/v1"+path, in)
	ok = status/100 == 2
	switch {
	case s.AnyExpires(s.Now, time.Now()): // the one or the other
	case ok && !has.Has(needs):
		s.note(fmt.Errorf("%s with %04b was done", what, has))
	case !has.Has(needs):
		if err := wrong(what, has, needs, status); err != nil {
			s.note(fmt.Errorf("%w: %s", err, answer))
		}
	case status == http.StatusNotFound:
		s.note(fmt.Errorf("%s with %04b: %s", what, has, answer))
	}
	if ok {
		s.happened()
	}
	return answer, ok && s.err == nil
}

func (s *society) mkdir(p citizen, parent drive.NodeID) {
	if len(s.Nodes) >= mostFolders {
		return
	}
	answer, ok := s.change("make a folder", p, s.Rights(p.user, parent), access.Create, "POST", "/nodes",
		map[string]any{"type": "folder", "parent": parent, "name": s.name()})
	if ok {
		var made struct{ ID string }
		s.note(json.Unmarshal(answer, &made))
		s.Add(s.node(made.ID), parent, s.AccountIndex[parent])
	}
}

// move moves a folder to another folder of its drive, which needs a right at both.
func (s *society) move(p citizen, node drive.NodeID) {
	to := pick(s.rand, s.Nodes)
	if s.AccountIndex[to] != s.AccountIndex[node] || s.Parent[node].IsZero() || s.Below(to, node) {
		return
	}
	has := s.Rights(p.user, node)
	if there := s.Rights(p.user, to); has.Has(access.Change) && !there.Has(access.Create) {
		status, answer := s.send(s.at, p.token, "PATCH", "/api/v1/nodes/"+node.String(), map[string]any{"parent": to})
		if status != http.StatusForbidden && status != http.StatusNotFound {
			if s.AnyExpires(s.Now, time.Now()) {
				return
			}
			s.note(fmt.Errorf("move to where there is %04b: %d %s", there, status, answer))
		}
		return
	}
	if _, ok := s.change("move", p, has, access.Change, "PATCH", "/nodes/"+node.String(), map[string]any{"parent": to}); ok {
		s.Parent[node] = to
	}
}

func (s *society) give(p citizen, node drive.NodeID) {
	if len(s.Grants) >= mostGrants {
		return
	}
	g := access.Grant{Node: node, Kind: access.User, Principal: drive.PrincipalID(pick(s.rand, s.people).user), Role: pick(s.rand, access.Roles())}
	if s.rand.IntN(2) == 0 {
		g.Kind, g.Principal = access.Group, drive.PrincipalID(pick(s.rand, s.Groups))
	}
	in := map[string]any{"kind": g.Kind, "principal": g.Principal, "role": g.Role}
	if s.rand.IntN(3) == 0 {
		in["expires_in"] = leastRole
	}
	answer, ok := s.change("give a role", p, s.Rights(p.user, node), access.Manage, "POST", "/nodes/"+node.String()+"/grants", in)
	if ok {
		var given struct {
			ExpiresAt drive.Time `json:"expires_at"` // null is zero
		}
		s.note(json.Unmarshal(answer, &given))
		g.Expires = given.ExpiresAt
		s.Grant(g)
	}
}

// leastRole is how many seconds a role lasts that ends, at least.
const leastRole = 60

func (s *society) take(p citizen, _ drive.NodeID) {
	g := pick(s.rand, s.Grants)
	if g.Principal == drive.PrincipalID(p.user) {
		return // one's own role may be left by anybody
	}
	if g.Expires != 0 && g.Expires <= drive.TimeOf(time.Now().Add(time.Minute/2)) {
		return // it ends, and is not there any more once that was told
	}
	path := fmt.Sprintf("/nodes/%s/grants/%s", g.Node, g.Principal)
	if _, ok := s.change("take a role", p, s.Rights(p.user, g.Node), access.Manage, "DELETE", path, nil); ok {
		s.Revoke(g.Node, g.Principal)
	}
}

// byAdmin changes what administrators may change; it may be refused because of the last manager.
func (s *society) byAdmin(method, path string, in any) bool {
	status, answer := s.send(s.at, s.admin, method, "/api/v1"+path, in)
	if status/100 != 2 && status != http.StatusConflict {
		s.note(fmt.Errorf("%s %s: %d %s", method, path, status, answer))
	}
	if status/100 == 2 {
		s.happened()
	}
	return status/100 == 2
}

func (s *society) join(p citizen, _ drive.NodeID) {
	g := pick(s.rand, s.Groups)
	if s.byAdmin("PUT", fmt.Sprintf("/admin/groups/%s/members/%s", g, p.user), nil) {
		s.Member[g][p.user] = true
	}
}

func (s *society) leave(p citizen, _ drive.NodeID) {
	g := pick(s.rand, s.Groups)
	if s.Member[g][p.user] && s.byAdmin("DELETE", fmt.Sprintf("/admin/groups/%s/members/%s", g, p.user), nil) {
		delete(s.Member[g], p.user)
	}
}

// aSpace is one of the spaces: rooms are drives and spaces by turns.
func (s *society) aSpace() int { return 1 + 2*s.rand.IntN(len(s.Accounts)/2) }

func (s *society) setState(citizen, drive.NodeID) {
	room := &s.Accounts[s.aSpace()]
	to := one(s.rand, access.Active, access.Active, access.Archived, access.Deleted)
	path := "/admin/spaces/" + room.Account.String()
	if to == access.Deleted && s.byAdmin("DELETE", path, nil) || to != access.Deleted && s.byAdmin("PATCH", path, map[string]any{"state": to}) {
		room.State = to
	}
}

func (s *society) setRules(citizen, drive.NodeID) {
	room := &s.Accounts[s.aSpace()]
	links, outward := pick(s.rand, []access.SharingPolicy{access.Editors, access.Managers, access.Nobody}), pick(s.rand, []access.SharingPolicy{access.Managers, access.Nobody})
	if s.byAdmin("PATCH", "/admin/spaces/"+room.Account.String(), map[string]any{"links": links, "outward": outward}) {
		room.Links, room.Outward = links, outward
	}
}
