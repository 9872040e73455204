package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/space"
)

const (
	// spacesPath is a route path below prefix: /spaces.
	spacesPath = "/spaces"
	// adminSpacesPath is a route path below prefix: /admin/spaces.
	adminSpacesPath = "/admin/spaces"
)

// spaces serves the routes for spaces, and for roles at folders and files.
type spaces struct {
	spaces *space.Spaces
	files  *files.Files
}

// routes returns the declarations of the routes that spaces serves. It registers nothing.
func (s spaces) routes() []route {
	one, each := spacesPath+"/{id}", adminSpacesPath+"/{id}"
	return []route{
		{
			id: "listSpaces", method: "GET", path: spacesPath, access: read, action: withoutBody(s.list),
			summary:  "List the spaces that the caller is a member of, by name. What is in one has addresses as `//NAME/folder/file`, where `NAME` may also be the id.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Space]](200, "all of them")},
		}, {
			id: "getSpace", method: "GET", path: one, access: read, action: byID(s.get),
			summary:  "Show a space, to its members and to administrators.",
			outcomes: []outcome{jsonOutcome[api.Space](200, "the space")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "updateSpace", method: "PATCH", path: one, access: write, action: byIDWithJSON(s.change),
			summary:  "Rename or archive a space, or change its settings: its managers may. In an archived one everything can be read and nothing changed.",
			outcomes: []outcome{jsonOutcome[api.Space](200, "the space")}, errors: []drive.Kind{drive.NotFound, drive.Forbidden, drive.NameTaken},
		}, {
			id: "listAllSpaces", method: "GET", path: adminSpacesPath, access: admins, action: withoutBody(s.listAll),
			query:    []param{limitParam, cursor, {name: "deleted", syntax: boolean, doc: "those that were deleted and can be brought back, the oldest first: one page"}},
			summary:  "List all spaces by name.",
			outcomes: []outcome{jsonOutcome[api.Page[api.Space]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "createSpace", method: "POST", path: adminSpacesPath, access: admins, action: withJSON(s.create), idempotent: true, createdPath: spacesPath,
			summary:  "Make a space with a total of its own and its first manager.",
			outcomes: []outcome{jsonOutcome[api.Space](201, "the space")},
			errors:   []drive.Kind{drive.NameTaken, drive.NotFound, drive.TooManyOpen},
		}, {
			id: "updateSpaceAsAdmin", method: "PATCH", path: each, access: admins, action: byIDWithJSON(s.set),
			summary:  "Change a space, all of it or nothing. `state: active` brings one back from the archive, or within 30 days from its deletion.",
			outcomes: []outcome{jsonOutcome[api.Space](200, "the space")}, errors: []drive.Kind{drive.NotFound, drive.NameTaken},
		}, {
			id: "deleteSpace", method: "DELETE", path: each, access: admins, action: byID(s.remove),
			summary:  "Delete a space: it is gone for its members at once, and for good after 30 days.",
			outcomes: []outcome{emptyOutcome(204, "it is deleted")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// showSpace returns the wire form of a space.
func showSpace(_ *call, v space.View) api.Space {
	return api.Space{
		ID: v.ID.String(), RootID: v.Root.String(), Name: v.Name, State: string(v.State), Role: string(v.Rights.Role()), Usage: usageOf(v.Balance),
		CreatedAt: showTime(v.Created), UpdatedAt: showTime(v.Updated), DeletedAt: timeOrNil(v.Deleted),
		Links: string(v.Links), Outward: string(v.ShareOutside), TrashDays: v.TrashDays, VersionDays: v.VersionDays,
	}
}

// list serves GET /spaces. It replies 200 with all spaces that the caller is a member of, on one
// page.
func (s spaces) list(ctx context.Context, c *call) (reply, error) {
	all, err := s.spaces.List(ctx, c.who)
	if err != nil {
		return reply{}, err
	}
	page := api.Page[api.Space]{Items: make([]api.Space, len(all))}
	for i, v := range all {
		page.Items[i] = showSpace(c, v)
	}
	return ok(page)
}

// listAll serves GET /admin/spaces. It replies 200 with api.Page[api.Space]. Beyond the errors
// common to all routes it fails with drive.CursorInvalid.
func (s spaces) listAll(ctx context.Context, c *call) (reply, error) {
	var all []space.View
	var next string
	var err error
	if c.flag("deleted") {
		all, err = s.spaces.ListDeleted(ctx, c.who, c.limit())
	} else {
		all, next, err = s.spaces.ListAll(ctx, c.who, c.query.Get(cursor.name), c.limit())
	}
	if err != nil {
		return reply{}, err
	}
	page := api.Page[api.Space]{Items: make([]api.Space, len(all))}
	for i, v := range all {
		page.Items[i] = showSpace(c, v)
	}
	if next != "" {
		page.NextCursor = &next
	}
	return ok(page)
}

// get serves GET /spaces/{id}. It replies 200 with api.Space. Beyond the errors common to all
// routes it fails with drive.NotFound.
func (s spaces) get(ctx context.Context, c *call, id drive.AccountID) (reply, error) {
	return replyWith(c, showSpace)(s.spaces.Find(ctx, c.who, id))
}

// spaceBody is the JSON request body of POST /admin/spaces.
type spaceBody struct {
	Name    string       `json:"name" doc:"1 to 64 bytes of visible characters without a slash; unique among spaces, ignoring case"`
	Total   admin.Total  `json:"total,omitempty" nullable:"true" doc:"bytes; null: unlimited; absent: the server's default"`
	Manager drive.UserID `json:"manager,omitzero" doc:"id of the user who becomes the first manager; absent: the caller"`
}

// create serves POST /admin/spaces. It replies 201 with api.Space. Beyond the errors common to all
// routes it fails with drive.NameTaken, drive.NotFound or drive.TooManyOpen.
func (s spaces) create(ctx context.Context, c *call, in *spaceBody) (reply, error) {
	wish := space.NewSpace{Name: in.Name, Total: space.Total(in.Total), Manager: in.Manager}
	return makeOnce(ctx, c, showSpace, func(keep storeResponse[space.View]) (space.View, error) {
		return s.spaces.Create(ctx, c.who, wish, keep)
	})
}

// spaceChangeBody is the JSON request body of PATCH /spaces/{id}.
type spaceChangeBody struct {
	Name  string       `json:"name,omitempty"`
	State access.State `json:"state,omitempty" enum:"archived"`

	Links       *access.SharingPolicy `json:"links,omitempty" enum:"editors,managers,nobody" doc:"who may create links; links of other users cannot be opened"`
	Outward     *access.SharingPolicy `json:"outward,omitempty" enum:"managers,nobody" doc:"who may grant roles to users who are not members; nobody: existing grants to them have no effect"`
	TrashDays   *int                  `json:"trash_days,omitempty" doc:"days that the trash is kept; 0: the server's setting"`
	VersionDays *int                  `json:"version_days,omitempty" doc:"days that old versions are kept; 0: the server's setting"`
}

// change serves PATCH /spaces/{id}. It replies 200 with api.Space. Beyond the errors common to all
// routes it fails with drive.NotFound, drive.Forbidden or drive.NameTaken.
func (s spaces) change(ctx context.Context, c *call, id drive.AccountID, in *spaceChangeBody) (reply, error) {
	return replyWith(c, showSpace)(s.spaces.Set(ctx, c.who, id, space.Change{Name: in.Name, State: in.State, Settings: access.SettingsChange{Links: in.Links, Outward: in.Outward, TrashDays: in.TrashDays, VersionDays: in.VersionDays}}))
}

// spaceSetBody is the JSON request body of PATCH /admin/spaces/{id}.
type spaceSetBody struct {
	Name  string       `json:"name,omitempty"`
	State access.State `json:"state,omitempty" enum:"active,archived"`
	Total admin.Total  `json:"total,omitempty" nullable:"true" doc:"bytes; null: unlimited"`

	Links       *access.SharingPolicy `json:"links,omitempty" enum:"editors,managers,nobody" doc:"who may create links; links of other users cannot be opened"`
	Outward     *access.SharingPolicy `json:"outward,omitempty" enum:"managers,nobody" doc:"who may grant roles to users who are not members; nobody: existing grants to them have no effect"`
	TrashDays   *int                  `json:"trash_days,omitempty" doc:"days that the trash is kept; 0: the server's setting"`
	VersionDays *int                  `json:"version_days,omitempty" doc:"days that old versions are kept; 0: the server's setting"`
}

// set serves PATCH /admin/spaces/{id}. It replies 200 with api.Space. Beyond the errors common to
// all routes it fails with drive.NotFound or drive.NameTaken.
func (s spaces) set(ctx context.Context, c *call, id drive.AccountID, in *spaceSetBody) (reply, error) {
	return replyWith(c, showSpace)(s.spaces.Set(ctx, c.who, id, space.Change{Name: in.Name, State: in.State, Total: space.Total(in.Total), Settings: access.SettingsChange{Links: in.Links, Outward: in.Outward, TrashDays: in.TrashDays, VersionDays: in.VersionDays}}))
}

// remove serves DELETE /admin/spaces/{id}. It replies 204 without a body. Beyond the errors common
// to all routes it fails with drive.NotFound. The space can be brought back until it is purged.
func (s spaces) remove(ctx context.Context, c *call, id drive.AccountID) (reply, error) {
	return empty(s.spaces.Delete(ctx, c.who, id))
}
