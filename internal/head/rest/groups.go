package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/usecase/space"
)

// groupsPath is a route path below prefix: /admin/groups.
const groupsPath = "/admin/groups"

// groups serves the administrators' routes for groups of users.
type groups struct{ spaces *space.Spaces }

// routes returns the declarations of the routes that groups serves. It registers nothing.
func (g groups) routes() []route {
	one := groupsPath + "/{id}"
	return []route{
		{
			id: "listGroups", method: "GET", path: groupsPath, access: admins, action: withoutBody(g.list), query: []param{limitParam, cursor},
			summary:  "List the groups by name.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Group]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "createGroup", method: "POST", path: groupsPath, access: admins, action: withJSON(g.create), idempotent: true, createdPath: groupsPath,
			summary:  "Create a group of users, to share with all of them.",
			outcomes: []outcome{jsonOutcome[api.Group](201, "the group")}, errors: []drive.Kind{drive.NameTaken, drive.TooManyOpen},
		}, {
			id: "getGroup", method: "GET", path: one, access: admins, action: byID(g.get),
			summary:  "Show a group.",
			outcomes: []outcome{jsonOutcome[api.Group](200, "the group")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "updateGroup", method: "PATCH", path: one, access: admins, action: byIDWithJSON(g.rename),
			summary:  "Rename a group.",
			outcomes: []outcome{jsonOutcome[api.Group](200, "the group")}, errors: []drive.Kind{drive.NotFound, drive.NameTaken},
		}, {
			id: "deleteGroup", method: "DELETE", path: one, access: admins, action: byID(g.remove),
			summary:  "Delete a group: its members lose what it was given.",
			outcomes: []outcome{emptyOutcome(204, "it is gone")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			id: "listGroupMembers", method: "GET", path: one + "/members", access: admins, action: byID(g.members), query: []param{limitParam, cursor},
			summary:  "List the users of a group.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Member]](200, "a page")}, errors: []drive.Kind{drive.NotFound, drive.CursorInvalid},
		}, {
			id: "addGroupMember", method: "PUT", path: one + "/members/{user}", access: admins, action: byID(g.add),
			summary:  "Put a user into a group.",
			outcomes: []outcome{emptyOutcome(204, "the user is in it")}, errors: []drive.Kind{drive.NotFound, drive.TooManyOpen},
		}, {
			id: "removeGroupMember", method: "DELETE", path: one + "/members/{user}", access: admins, action: byID(g.take),
			summary:  "Take a user out of a group. Repeating it is not an error.",
			outcomes: []outcome{emptyOutcome(204, "the user is not in it")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		},
	}
}

// showGroup returns the wire form of a group.
func showGroup(_ *call, t access.UserGroup) api.Group {
	return api.Group{ID: t.ID.String(), Name: t.Name, CreatedAt: showTime(t.Created), UpdatedAt: showTime(t.Updated)}
}

// list serves GET /admin/groups. It replies 200 with api.Page[api.Group]. Beyond the errors
// common to all routes it fails with drive.CursorInvalid.
func (g groups) list(ctx context.Context, c *call) (reply, error) {
	all, next, err := g.spaces.ListGroups(ctx, c.who, c.query.Get(cursor.name), c.limit())
	if err != nil {
		return reply{}, err
	}
	page := api.Page[api.Group]{Items: make([]api.Group, len(all))}
	for i, t := range all {
		page.Items[i] = showGroup(c, t)
	}
	if next != "" {
		page.NextCursor = &next
	}
	return ok(page)
}

// groupBody is the JSON request body of POST /admin/groups and PATCH /admin/groups/{id}.
type groupBody struct {
	Name string `json:"name" doc:"1 to 64 bytes of visible characters without a slash; unique among groups, ignoring case"`
}

// create serves POST /admin/groups. It replies 201 with api.Group. Beyond the errors common to all
// routes it fails with drive.NameTaken or drive.TooManyOpen.
func (g groups) create(ctx context.Context, c *call, in *groupBody) (reply, error) {
	return makeOnce(ctx, c, showGroup, func(keep storeResponse[access.UserGroup]) (access.UserGroup, error) {
		return g.spaces.CreateGroup(ctx, c.who, in.Name, keep)
	})
}

// get serves GET /admin/groups/{id}. It replies 200 with api.Group. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (g groups) get(ctx context.Context, c *call, id drive.GroupID) (reply, error) {
	return replyWith(c, showGroup)(g.spaces.FindGroup(ctx, c.who, id))
}

// rename serves PATCH /admin/groups/{id}. It replies 200 with api.Group. Beyond the errors common
// to all routes it fails with drive.NotFound or drive.NameTaken.
func (g groups) rename(ctx context.Context, c *call, id drive.GroupID, in *groupBody) (reply, error) {
	return replyWith(c, showGroup)(g.spaces.RenameGroup(ctx, c.who, id, in.Name))
}

// remove serves DELETE /admin/groups/{id}. It replies 204 without a body. Beyond the errors common
// to all routes it fails with drive.NotFound or drive.WrongState. Grants to the group end; its
// users stay.
func (g groups) remove(ctx context.Context, c *call, id drive.GroupID) (reply, error) {
	return empty(g.spaces.DeleteGroup(ctx, c.who, id))
}

// members serves GET /admin/groups/{id}/members. It replies 200 with api.Page[api.Member]. Beyond
// the errors common to all routes it fails with drive.NotFound or drive.CursorInvalid.
func (g groups) members(ctx context.Context, c *call, id drive.GroupID) (reply, error) {
	return listPage(c, func(since drive.UserID, limit int) ([]access.Person, error) {
		return g.spaces.ListMembers(ctx, c.who, id, since, limit)
	}, func(_ *call, p access.Person) api.Member { return api.Member{ID: p.ID.String(), Name: p.Name} }, func(v api.Member) string { return v.ID })
}

// add serves PUT /admin/groups/{id}/members/{user}. It replies 204 without a body. Beyond the
// errors common to all routes it fails with drive.NotFound or drive.TooManyOpen.
func (g groups) add(ctx context.Context, c *call, id drive.GroupID) (reply, error) {
	user, err := drive.ParseID[drive.UserID](c.r.PathValue("user"))
	if err != nil {
		return reply{}, err
	}
	return empty(g.spaces.AddMember(ctx, c.who, id, user))
}

// take serves DELETE /admin/groups/{id}/members/{user}. It replies 204 without a body. Beyond the
// errors common to all routes it fails with drive.NotFound or drive.WrongState.
func (g groups) take(ctx context.Context, c *call, id drive.GroupID) (reply, error) {
	user, err := drive.ParseID[drive.UserID](c.r.PathValue("user"))
	if err != nil {
		return reply{}, err
	}
	return empty(g.spaces.RemoveMember(ctx, c.who, id, user))
}
