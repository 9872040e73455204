package rest

import (
	"context"
	"strings"
	"time"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/space"
)

// grantRoutes returns the declarations of the grant routes. It registers nothing.
func (s spaces) grantRoutes() []route {
	at := nodesPath + "/{id}/grants"
	return []route{
		{
			id: "listAccess", method: "GET", path: nodesPath + "/{id}/access", access: read, action: byNode(s.files, s.access),
			summary:  "Show who has access to a node by name, and from which folder each right comes; up to 1,000 roles, the nearest first.",
			outcomes: []outcome{jsonOutcome[api.Access](200, "who has access")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden},
		}, {
			id: "listGrants", method: "GET", path: at, access: read, action: byNode(s.files, s.grants), query: []param{limitParam, cursor},
			summary:  "List the roles that were given at a node. Those at the root of a space are its members.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Grant]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden, drive.CursorInvalid},
		}, {
			id: "createGrant", method: "POST", path: at, access: write, action: byNodeWithJSON(s.files, s.grant), idempotent: true,
			summary: "Grant a role to a user or a group at a node, in the place of the one that it has there: share a folder by name, or take somebody into a space. " +
				"Of a node and the folders above it the nearest one decides that has a role for the user or the user's groups; `none` shuts out.",
			outcomes: []outcome{jsonOutcome[api.Grant](201, "the role")},
			errors:   []drive.Kind{drive.NotFound, drive.Forbidden, drive.WrongState, drive.TooManyOpen},
		}, {
			id: "deleteGrant", method: "DELETE", path: at + "/{principal}", access: write, action: byNode(s.files, s.ungrant),
			summary:  "Take a role away; one's own, to leave. Repeating it is not an error.",
			outcomes: []outcome{emptyOutcome(204, "it is gone")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden, drive.WrongState},
		}, {
			id: "listSharedWithMe", method: "GET", path: "/shared-with-me", access: read, action: withoutBody(s.withMe),
			query:    []param{limitParam, cursor, {name: "hidden", syntax: boolean, doc: "also what the caller has hidden"}},
			summary:  "List the folders and files that are shared with the caller by name. Addresses below one are `//ID/folder/file`.",
			outcomes: []outcome{jsonOutcome[api.Page[api.SharedByName]](200, "a page; one that is in the trash, or gone, has no name")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "updateSharedWithMe", method: "PATCH", path: "/shared-with-me/{id}", access: write, action: byNodeWithJSON(s.files, s.mount),
			summary:  "Call something that is shared with the caller by another name, or hide it from the list: for the caller alone.",
			outcomes: []outcome{emptyOutcome(204, "it is changed")}, errors: []drive.Kind{drive.NotFound, drive.TooManyOpen},
		}, {
			id: "listSharedByMe", method: "GET", path: "/shared-by-me", access: read, action: withoutBody(s.byMe), query: []param{limitParam, cursor},
			summary:  "List what the caller shares by name of their own drive, an item for each role.",
			outcomes: []outcome{jsonOutcome[api.Page[api.SharedByName]](200, "a page; one that is in the trash, or gone, has no name")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "searchPeople", method: "GET", path: "/people", access: read, action: withoutBody(s.people), query: []param{{name: "q", required: true, doc: "how the name begins: at least two characters"}},
			summary:  "Look for users and groups to share with: the first 10 by name. 30 searches at once, then one every 2 seconds.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Principal]](200, "who was found")}, errors: []drive.Kind{drive.Rate},
		},
	}
}

// showRole returns the wire form of a grant.
func showRole(_ *call, g access.Grant) api.Grant {
	return api.Grant{
		NodeID: g.Node.String(), Kind: string(g.Kind), PrincipalID: g.Principal.String(), Name: g.Name, Role: string(g.Role), Note: g.Note,
		CreatedAt: showTime(g.Created), ExpiresAt: timeOrNil(g.Expires),
	}
}

// access serves GET /nodes/{id}/access. It replies 200 with api.Access. Beyond the errors common to
// all routes it fails with drive.NotFound or drive.Forbidden.
func (s spaces) access(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	p, err := s.spaces.Access(ctx, c.who, id)
	if err != nil {
		return reply{}, err
	}
	view := api.Access{Role: string(p.Rights.Role()), Owner: p.Owner, Grants: make([]api.AccessGrant, len(p.Grants))}
	for i, g := range p.Grants {
		view.Grants[i] = api.AccessGrant{Grant: showRole(c, g.Grant), Level: g.Level, Idle: g.Ineffective}
	}
	return ok(view)
}

// grants serves GET /nodes/{id}/grants. It replies 200 with api.Page[api.Grant]. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.Forbidden or drive.CursorInvalid.
func (s spaces) grants(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	return listPage(c, func(since drive.PrincipalID, limit int) ([]access.Grant, error) {
		return s.spaces.Members(ctx, c.who, id, since, limit)
	}, showRole, func(v api.Grant) string { return v.PrincipalID })
}

// grantBody is the JSON request body of POST /nodes/{id}/grants.
type grantBody struct {
	Kind      access.Kind `json:"kind" enum:"user,group"`
	Principal string      `json:"principal" doc:"id or name (case-insensitive) of a user or group"`
	Role      access.Role `json:"role" enum:"none,viewer,uploader,editor,manager"`
	Note      string      `json:"note,omitempty" doc:"note for the recipient, at most 1,000 bytes"`
	ExpiresIn *int64      `json:"expires_in,omitempty" nullable:"true" minimum:"60" maximum:"315360000" doc:"lifetime in seconds; absent: unlimited"`
}

// grant serves POST /nodes/{id}/grants. It replies 201 with api.Grant. Beyond the errors common to
// all routes it fails with drive.NotFound, drive.Forbidden, drive.WrongState or drive.TooManyOpen.
// The grant replaces the principal's role at the node.
func (s spaces) grant(ctx context.Context, c *call, id drive.NodeID, in *grantBody) (reply, error) {
	if err := oneOf("kind", in.Kind, []access.Kind{access.User, access.Group}); err != nil {
		return reply{}, err
	}
	role, err := access.ParseRole(string(in.Role))
	if err != nil {
		return reply{}, err
	}
	var last time.Duration
	if last, err = linkLifetime(in.ExpiresIn); err != nil {
		return reply{}, err
	}
	wish := space.NewGrant{Node: id, To: space.Principal{Kind: in.Kind, Name: in.Principal}, Role: role, Note: in.Note, Life: last, Admin: c.who.Admin}
	if principal, err := drive.ParseID[drive.PrincipalID](in.Principal); err == nil {
		wish.To.ID, wish.To.Name = principal, ""
	} else if strings.TrimSpace(in.Principal) == "" {
		return reply{}, drive.BadField("principal", drive.Required)
	}
	return makeOnce(ctx, c, showRole, func(keep storeResponse[access.Grant]) (access.Grant, error) {
		return s.spaces.Grant(ctx, c.who, wish, keep)
	})
}

// ungrant serves DELETE /nodes/{id}/grants/{principal}. It replies 204 without a body. Beyond the
// errors common to all routes it fails with drive.NotFound, drive.Forbidden or drive.WrongState. A
// missing role is not an error.
func (s spaces) ungrant(ctx context.Context, c *call, id drive.NodeID) (reply, error) {
	principal, err := drive.ParseID[drive.PrincipalID](c.r.PathValue("principal"))
	if err != nil {
		return reply{}, err
	}
	return empty(s.spaces.Ungrant(ctx, c.who, id, principal, c.who.Admin))
}

// showSharedItem returns the wire form of a role with a summary of its node.
func showSharedItem(c *call, v space.Shared) api.SharedByName {
	v.Item.Type = typeOrFile(v.Item.Type)
	return api.SharedByName{
		Grant: showRole(c, v.Grant), Path: v.Path, Node: linkTarget(v.Node, v.Item), Owner: v.Owner, Space: v.Space, Alias: v.Alias, Hidden: v.Hidden,
	}
}

// typeOrFile returns t, and the type of a file for a node that does not exist any more.
func typeOrFile(t tree.Type) tree.Type {
	if t == "" {
		return tree.TypeFile
	}
	return t
}

// withMe serves GET /shared-with-me. It replies 200 with api.Page[api.SharedByName]. Beyond the
// errors common to all routes it fails with drive.CursorInvalid.
func (s spaces) withMe(ctx context.Context, c *call) (reply, error) {
	return listPage(c, func(since drive.NodeID, limit int) ([]space.Shared, error) {
		return s.spaces.ListSharedWithMe(ctx, c.who, since, limit, c.flag("hidden"))
	}, showSharedItem, func(v api.SharedByName) string { return v.Grant.NodeID })
}

// mountBody is the JSON request body of PATCH /shared-with-me/{id}.
type mountBody struct {
	Name   *string `json:"name,omitempty" doc:"name shown to the caller; empty: the owner's name for it"`
	Hidden *bool   `json:"hidden,omitempty"`
}

// mount serves PATCH /shared-with-me/{id}: it renames or hides, for the caller only, a node that is
// shared with the caller. It replies 204 without a body. Beyond the errors common to all routes it
// fails with drive.NotFound, and with drive.TooManyOpen if the caller has renamed or hidden too
// many nodes.
func (s spaces) mount(ctx context.Context, c *call, id drive.NodeID, in *mountBody) (reply, error) {
	return empty(s.spaces.SetMount(ctx, c.who, id, access.MountChange{Alias: in.Name, Hidden: in.Hidden}))
}

// byMe serves GET /shared-by-me. It replies 200 with api.Page[api.SharedByName]. Beyond the errors
// common to all routes it fails with drive.CursorInvalid.
func (s spaces) byMe(ctx context.Context, c *call) (reply, error) {
	var since access.Grant
	if text := c.query.Get(cursor.name); text != "" {
		node, principal, both := strings.Cut(text, ".")
		var err, other error
		since.Node, err = drive.ParseID[drive.NodeID](node)
		since.Principal, other = drive.ParseID[drive.PrincipalID](principal)
		if !both || err != nil || other != nil {
			return reply{}, drive.Fail(drive.CursorInvalid)
		}
	}
	all, err := s.spaces.ListSharedByMe(ctx, c.who, since, c.limit()+1)
	if err != nil {
		return reply{}, err
	}
	return ok(newPageOf(c, all, showSharedItem, func(v api.SharedByName) string { return v.Grant.NodeID + "." + v.Grant.PrincipalID }))
}

// people serves GET /people. It replies 200 with api.Page[api.Principal]. Beyond the errors common
// to all routes it fails with drive.Rate.
func (s spaces) people(ctx context.Context, c *call) (reply, error) {
	found, err := s.spaces.Search(ctx, c.who, c.query.Get("q"))
	if err != nil {
		return reply{}, err
	}
	page := api.Page[api.Principal]{Items: make([]api.Principal, len(found))}
	for i, f := range found {
		page.Items[i] = api.Principal{Kind: string(f.Kind), ID: f.ID.String(), Name: f.Name}
	}
	return ok(page)
}
