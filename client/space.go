package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Sharing is what people do with what they share: spaces, groups, roles at folders and files.
type Sharing struct{ c *Client }

// NewSharing returns the Sharing of a client.
func NewSharing(c *Client) Sharing { return Sharing{c} }

// Space is an account that people share.
type Space struct {
	ID     string `json:"id"`
	RootID string `json:"root_id"`
	Name   string `json:"name"`
	State  string `json:"state"` // active, archived, deleted
	Role   string `json:"role"`  // the caller's: none, viewer, uploader, editor, manager
	Usage  struct {
		Total *int64 `json:"total"` // bytes; nil: no limit
		Used  int64  `json:"used"`
	} `json:"usage"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	Links       string `json:"links"`        // who may give out links: editors, managers, nobody
	Outward     string `json:"outward"`      // who may give roles to others than members: managers, nobody
	TrashDays   int    `json:"trash_days"`   // for how long the trash is kept; 0: as the server does
	VersionDays int    `json:"version_days"` // and old versions
}

// Spaces lists the spaces that the caller is a member of.
func (s Sharing) Spaces(ctx context.Context) ([]Space, error) {
	l, err := fetch[List[Space]](ctx, s.c, &call{method: http.MethodGet, path: "/spaces"})
	return l.Items, err
}

// AllSpaces yields all spaces there are, for administrators.
func (s Sharing) AllSpaces(ctx context.Context) iter.Seq2[Space, error] {
	return all(func(p Page) (List[Space], error) {
		return fetch[List[Space]](ctx, s.c, &call{method: http.MethodGet, path: "/admin/spaces", query: p.values()})
	})
}

// NewSpace describes a space to be made.
type NewSpace struct {
	Name    string `json:"name"`
	Total   *int64 `json:"total,omitempty"`   // bytes; nil: the server's default
	Manager string `json:"manager,omitempty"` // id of a user; empty: the caller
}

// CreateSpace makes a space. Administrators may.
func (s Sharing) CreateSpace(ctx context.Context, in NewSpace) (Space, error) {
	return fetch[Space](ctx, s.c, &call{method: http.MethodPost, path: "/admin/spaces", in: in, key: true})
}

// SpaceChange says what of a space changes; what is zero stays.
type SpaceChange struct {
	Name  string `json:"name,omitempty"`
	State string `json:"state,omitempty"` // active or archived
	Total *int64 `json:"total,omitempty"` // bytes

	Links       string `json:"links,omitempty"`
	Outward     string `json:"outward,omitempty"`
	TrashDays   *int   `json:"trash_days,omitempty"`
	VersionDays *int   `json:"version_days,omitempty"`
}

// ChangeSpace changes a space as one of its managers: its name, its settings, or to archive it.
func (s Sharing) ChangeSpace(ctx context.Context, id string, ch SpaceChange) (Space, error) {
	return fetch[Space](ctx, s.c, &call{method: http.MethodPatch, path: "/spaces/" + url.PathEscape(id), in: ch})
}

// SetSpace changes a space as an administrator.
func (s Sharing) SetSpace(ctx context.Context, id string, ch SpaceChange) (Space, error) {
	return fetch[Space](ctx, s.c, &call{method: http.MethodPatch, path: "/admin/spaces/" + url.PathEscape(id), in: ch})
}

// DeleteSpace deletes a space; for 30 days SetSpace with the state active brings it back.
func (s Sharing) DeleteSpace(ctx context.Context, id string) error {
	return s.c.do(ctx, &call{method: http.MethodDelete, path: "/admin/spaces/" + url.PathEscape(id)})
}

// Grant is a role of a user or a group at a node.
type Grant struct {
	NodeID      string     `json:"node_id"`
	Kind        string     `json:"kind"` // user or group
	PrincipalID string     `json:"principal_id"`
	Name        string     `json:"name"` // of the user or group
	Role        string     `json:"role"`
	Note        string     `json:"note"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at"` // nil: never
}

// NewGrant describes a role to be given.
type NewGrant struct {
	Kind      string `json:"kind"`      // user or group
	Principal string `json:"principal"` // id or name
	Role      string `json:"role"`
	Note      string `json:"note,omitempty"`
	ExpiresIn int64  `json:"expires_in,omitempty"` // seconds; 0: never
}

// Grant gives a user or a group a role at a node, in the place of the one that it has there.
func (s Sharing) Grant(ctx context.Context, node string, g NewGrant) (Grant, error) {
	return fetch[Grant](ctx, s.c, &call{method: http.MethodPost, path: nodePath(node) + "/grants", in: g, key: true})
}

// Ungrant takes a role at a node away; one's own, to leave.
func (s Sharing) Ungrant(ctx context.Context, node, principal string) error {
	return s.c.do(ctx, &call{method: http.MethodDelete, path: nodePath(node) + "/grants/" + url.PathEscape(principal)})
}

// AllGrants yields the roles at a node; at the root of a space those are its members.
func (s Sharing) AllGrants(ctx context.Context, node string) iter.Seq2[Grant, error] {
	return all(func(p Page) (List[Grant], error) {
		return fetch[List[Grant]](ctx, s.c, &call{method: http.MethodGet, path: nodePath(node) + "/grants", query: p.values()})
	})
}

// Access is who has access to a node by name, and from where.
type Access struct {
	Role   string        `json:"role"`  // the caller's
	Owner  string        `json:"owner"` // whose drive it is in; empty: a space
	Grants []AccessGrant `json:"grants"`
}

// AccessGrant is a role at a node or at a folder above it.
type AccessGrant struct {
	Grant Grant `json:"grant"`
	Level int   `json:"level"` // how many folders above
	Idle  bool  `json:"idle"`  // it gives nothing for now: the space shares nothing with others than its members
}

// Access tells who has access to a node.
func (s Sharing) Access(ctx context.Context, node string) (Access, error) {
	return fetch[Access](ctx, s.c, &call{method: http.MethodGet, path: nodePath(node) + "/access"})
}

// SharedByName is a folder or file that is shared by name.
type SharedByName struct {
	Grant Grant  `json:"grant"`
	Path  string `json:"path"` // its address for the caller
	Node  Linked `json:"node"`
}

// AllSharedWithMe yields what is shared with the caller by name.
func (s Sharing) AllSharedWithMe(ctx context.Context) iter.Seq2[SharedByName, error] {
	return all(func(p Page) (List[SharedByName], error) {
		return fetch[List[SharedByName]](ctx, s.c, &call{method: http.MethodGet, path: "/shared-with-me", query: p.values()})
	})
}

// AllSharedByMe yields what the caller shares by name.
func (s Sharing) AllSharedByMe(ctx context.Context) iter.Seq2[SharedByName, error] {
	return all(func(p Page) (List[SharedByName], error) {
		return fetch[List[SharedByName]](ctx, s.c, &call{method: http.MethodGet, path: "/shared-by-me", query: p.values()})
	})
}

// Group is a group of users.
type Group struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Person is a user as others may know them.
type Person struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

const groupsPath = "/admin/groups"

// AllGroups yields the groups by name. Groups are administrators'.
func (s Sharing) AllGroups(ctx context.Context) iter.Seq2[Group, error] {
	return all(func(p Page) (List[Group], error) {
		return fetch[List[Group]](ctx, s.c, &call{method: http.MethodGet, path: groupsPath, query: p.values()})
	})
}

// CreateGroup makes a group.
func (s Sharing) CreateGroup(ctx context.Context, name string) (Group, error) {
	return fetch[Group](ctx, s.c, &call{method: http.MethodPost, path: groupsPath, in: map[string]string{"name": name}, key: true})
}

// DeleteGroup deletes a group and what it was given.
func (s Sharing) DeleteGroup(ctx context.Context, id string) error {
	return s.c.do(ctx, &call{method: http.MethodDelete, path: groupsPath + "/" + url.PathEscape(id)})
}

// AllMembers yields the users of a group.
func (s Sharing) AllMembers(ctx context.Context, group string) iter.Seq2[Person, error] {
	return all(func(p Page) (List[Person], error) {
		return fetch[List[Person]](ctx, s.c, &call{method: http.MethodGet, path: groupsPath + "/" + url.PathEscape(group) + "/members", query: p.values()})
	})
}

// AddMember puts a user into a group.
func (s Sharing) AddMember(ctx context.Context, group, user string) error {
	return s.c.do(ctx, &call{method: http.MethodPut, path: memberPath(group, user)})
}

// RemoveMember takes a user out of a group.
func (s Sharing) RemoveMember(ctx context.Context, group, user string) error {
	return s.c.do(ctx, &call{method: http.MethodDelete, path: memberPath(group, user)})
}

func memberPath(group, user string) string {
	return groupsPath + "/" + url.PathEscape(group) + "/members/" + url.PathEscape(user)
}

// FindPeople looks for users and groups whose name begins so.
func (s Sharing) FindPeople(ctx context.Context, prefix string) ([]Found, error) {
	l, err := fetch[List[Found]](ctx, s.c, &call{method: http.MethodGet, path: "/people", query: url.Values{"q": {prefix}}})
	return l.Items, err
}

// Found is somebody to share with.
type Found struct {
	Kind string `json:"kind"` // user or group
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Trash lists what was deleted in a space: its name or id; empty: in one's own drive.
func (s Sharing) Trash(ctx context.Context, space string, p Page) (List[Node], error) {
	return fetch[List[Node]](ctx, s.c, &call{method: http.MethodGet, path: "/trash", query: inSpace(p.values(), space)})
}

// AllTrash is Trash, all pages.
func (s Sharing) AllTrash(ctx context.Context, space string) iter.Seq2[Node, error] {
	return all(func(p Page) (List[Node], error) { return s.Trash(ctx, space, p) })
}

// EmptyTrash deletes what is in the trash of a space for good.
func (s Sharing) EmptyTrash(ctx context.Context, space string) error {
	_, err := settled[Node](ctx, s.c, &call{method: http.MethodDelete, path: "/trash", query: inSpace(url.Values{}, space)})
	return err
}

// inSpace adds the name of a space to a query.
func inSpace(query url.Values, space string) url.Values {
	if space != "" {
		query.Set("space", space)
	}
	return query
}
