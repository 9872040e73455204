package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

// Sharing manages spaces, groups and roles.
type Sharing struct{ c *Client }

// NewSharing returns a Sharing that uses c.
func NewSharing(c *Client) Sharing { return Sharing{c} }

// Spaces returns all spaces that the caller is a member of, by name.
func (s Sharing) Spaces(ctx context.Context) ([]Space, error) {
	l, err := fetch[List[Space]](ctx, s.c, &request{method: http.MethodGet, path: "/spaces"})
	return l.Items, err
}

// AllSpaces yields all spaces of the server. It requires an administrator. If a request fails, the
// last pair is a zero value and the error.
func (s Sharing) AllSpaces(ctx context.Context) iter.Seq2[Space, error] {
	return all(func(p Page) (List[Space], error) {
		return fetch[List[Space]](ctx, s.c, &request{method: http.MethodGet, path: "/admin/spaces", query: p.values()})
	})
}

// NewSpace describes a space for CreateSpace.
type NewSpace struct {
	Name    string `json:"name"`
	Total   *int64 `json:"total,omitempty"`   // bytes; nil: the server's default
	Manager string `json:"manager,omitempty"` // id of a user; empty: the caller
}

// CreateSpace creates a space. It requires an administrator, else it fails with CodeForbidden; a
// used name fails with CodeNameTaken.
func (s Sharing) CreateSpace(ctx context.Context, in NewSpace) (Space, error) {
	return fetch[Space](ctx, s.c, &request{method: http.MethodPost, path: "/admin/spaces", input: in, withKey: true})
}

// SpaceChange describes changes of a space. Zero fields stay unchanged.
type SpaceChange struct {
	Name  string `json:"name,omitempty"`
	State string `json:"state,omitempty"` // active or archived
	Total *int64 `json:"total,omitempty"` // bytes

	Links       string `json:"links,omitempty"`
	Outward     string `json:"outward,omitempty"`
	TrashDays   *int   `json:"trash_days,omitempty"`
	VersionDays *int   `json:"version_days,omitempty"`
}

// ChangeSpace renames or archives a space, or changes its settings. It requires a manager of the
// space.
func (s Sharing) ChangeSpace(ctx context.Context, id string, ch SpaceChange) (Space, error) {
	return fetch[Space](ctx, s.c, &request{method: http.MethodPatch, path: "/spaces/" + url.PathEscape(id), input: ch})
}

// AdminChangeSpace changes the fields that ch sets and returns the space. It requires an
// administrator.
func (s Sharing) AdminChangeSpace(ctx context.Context, id string, ch SpaceChange) (Space, error) {
	return fetch[Space](ctx, s.c, &request{method: http.MethodPatch, path: "/admin/spaces/" + url.PathEscape(id), input: ch})
}

// DeleteSpace deletes a space. For 30 days, AdminChangeSpace with the state "active" restores it.
// It requires an administrator.
func (s Sharing) DeleteSpace(ctx context.Context, id string) error {
	return s.c.do(ctx, &request{method: http.MethodDelete, path: "/admin/spaces/" + url.PathEscape(id)})
}

// NewGrant describes a role for Sharing.Grant.
type NewGrant struct {
	Kind      string `json:"kind"`      // user or group
	Principal string `json:"principal"` // id or name
	Role      string `json:"role"`
	Note      string `json:"note,omitempty"`
	ExpiresIn int64  `json:"expires_in,omitempty"` // seconds; 0: never
}

// Grant gives a user or group a role at a node, replacing the role it has there.
func (s Sharing) Grant(ctx context.Context, node string, g NewGrant) (Grant, error) {
	return fetch[Grant](ctx, s.c, &request{method: http.MethodPost, path: nodePath(node) + "/grants", input: g, withKey: true})
}

// Ungrant removes a principal's role at a node. Callers may remove their own role.
func (s Sharing) Ungrant(ctx context.Context, node, principal string) error {
	return s.c.do(ctx, &request{method: http.MethodDelete, path: nodePath(node) + "/grants/" + url.PathEscape(principal)})
}

// AllGrants yields the roles granted at a node. The grants at the root of a space are its members.
// If a request fails, the last pair is a zero value and the error.
func (s Sharing) AllGrants(ctx context.Context, node string) iter.Seq2[Grant, error] {
	return all(func(p Page) (List[Grant], error) {
		return fetch[List[Grant]](ctx, s.c, &request{method: http.MethodGet, path: nodePath(node) + "/grants", query: p.values()})
	})
}

// Access returns the grants that give access to a node, nearest first. It fails with CodeNotFound
// or CodeForbidden.
func (s Sharing) Access(ctx context.Context, node string) (Access, error) {
	return fetch[Access](ctx, s.c, &request{method: http.MethodGet, path: nodePath(node) + "/access"})
}

// AllSharedWithMe yields the nodes that others share with the caller by name. It yields an error
// last.
func (s Sharing) AllSharedWithMe(ctx context.Context) iter.Seq2[SharedByName, error] {
	return all(func(p Page) (List[SharedByName], error) {
		return fetch[List[SharedByName]](ctx, s.c, &request{method: http.MethodGet, path: "/shared-with-me", query: p.values()})
	})
}

// AllSharedByMe yields the nodes that the caller shares by name. If a request fails, the last pair
// is a zero value and the error.
func (s Sharing) AllSharedByMe(ctx context.Context) iter.Seq2[SharedByName, error] {
	return all(func(p Page) (List[SharedByName], error) {
		return fetch[List[SharedByName]](ctx, s.c, &request{method: http.MethodGet, path: "/shared-by-me", query: p.values()})
	})
}

// groupsPath is the API path of groups.
const groupsPath = "/admin/groups"

// AllGroups yields the groups, sorted by name. It requires an administrator. It yields an error
// last.
func (s Sharing) AllGroups(ctx context.Context) iter.Seq2[Group, error] {
	return all(func(p Page) (List[Group], error) {
		return fetch[List[Group]](ctx, s.c, &request{method: http.MethodGet, path: groupsPath, query: p.values()})
	})
}

// CreateGroup creates an empty group. It requires an administrator. A used name fails with
// CodeNameTaken.
func (s Sharing) CreateGroup(ctx context.Context, name string) (Group, error) {
	return fetch[Group](ctx, s.c, &request{method: http.MethodPost, path: groupsPath, input: map[string]string{"name": name}, withKey: true})
}

// DeleteGroup deletes a group and its grants; its users stay. It requires an administrator.
func (s Sharing) DeleteGroup(ctx context.Context, id string) error {
	return s.c.do(ctx, &request{method: http.MethodDelete, path: groupsPath + "/" + url.PathEscape(id)})
}

// AllMembers yields the users of a group. If a request fails, the last pair is a zero value and the
// error.
func (s Sharing) AllMembers(ctx context.Context, group string) iter.Seq2[Member, error] {
	return all(func(p Page) (List[Member], error) {
		return fetch[List[Member]](ctx, s.c, &request{method: http.MethodGet, path: groupsPath + "/" + url.PathEscape(group) + "/members", query: p.values()})
	})
}

// AddMember adds a user, by id, to a group and notifies the user. It requires an administrator.
func (s Sharing) AddMember(ctx context.Context, group, user string) error {
	return s.c.do(ctx, &request{method: http.MethodPut, path: memberPath(group, user)})
}

// RemoveMember removes a user, by id, from a group and notifies the user. It fails with CodeState
// if a space would lose its last manager.
func (s Sharing) RemoveMember(ctx context.Context, group, user string) error {
	return s.c.do(ctx, &request{method: http.MethodDelete, path: memberPath(group, user)})
}

// memberPath returns the API path of a group's member.
func memberPath(group, user string) string {
	return groupsPath + "/" + url.PathEscape(group) + "/members/" + url.PathEscape(user)
}

// FindPrincipals returns the first users and groups whose name has the prefix.
func (s Sharing) FindPrincipals(ctx context.Context, prefix string) ([]Principal, error) {
	l, err := fetch[List[Principal]](ctx, s.c, &request{method: http.MethodGet, path: "/people", query: url.Values{"q": {prefix}}})
	return l.Items, err
}

// Trash returns a page of a space's trash. space is a name or id; empty: the user's own drive.
func (s Sharing) Trash(ctx context.Context, space string, p Page) (List[Node], error) {
	return fetch[List[Node]](ctx, s.c, &request{method: http.MethodGet, path: "/trash", query: inSpace(p.values(), space)})
}

// AllTrash yields all nodes in a space's trash; space is as in Trash. If a request fails, the last
// pair is a zero value and the error.
func (s Sharing) AllTrash(ctx context.Context, space string) iter.Seq2[Node, error] {
	return all(func(p Page) (List[Node], error) { return s.Trash(ctx, space, p) })
}

// EmptyTrash permanently deletes all nodes in a space's trash; space is as in Trash. It waits if
// the server continues in the background.
func (s Sharing) EmptyTrash(ctx context.Context, space string) error {
	_, err := fetchAndWait[Node](ctx, s.c, &request{method: http.MethodDelete, path: "/trash", query: inSpace(url.Values{}, space)})
	return err
}

// inSpace adds the parameter space to a query if space is not empty, and returns the query.
func inSpace(query url.Values, space string) url.Values {
	if space != "" {
		query.Set("space", space)
	}
	return query
}
