package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/usecase/admin"
)

// usersPath is a route path below prefix: /admin/users.
const usersPath = "/admin/users"

// users serves the administrators' routes for users.
type users struct {
	admin *admin.Admin
	now   func() time.Time
}

// routes returns the declarations of the routes that users serves. It registers nothing.
func (u users) routes() []route {
	one := usersPath + "/{id}"
	return []route{
		{
			id: "createUser", method: "POST", path: usersPath, access: admins, action: withJSON(u.create), idempotent: true, createdPath: usersPath,
			summary:  "Create a user with an account of their own.",
			outcomes: []outcome{jsonOutcome[userView](201, "the user")}, errors: []drive.Kind{drive.NameTaken},
		}, {
			id: "listUsers", method: "GET", path: usersPath, access: admins, action: withoutBody(u.list),
			query:    []param{{name: "name", doc: "only the user of this name, whatever its case"}, limitParam, cursor},
			summary:  "List the users by name.",
			outcomes: []outcome{jsonOutcome[api.Page[userView]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "updateUser", method: "PATCH", path: one, access: admins, action: byIDWithJSON(u.change),
			summary:  "Change a user, all of it or nothing. A total below what is used is possible: growth is refused from then on.",
			outcomes: []outcome{jsonOutcome[userView](200, "the user")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			id: "deleteUser", method: "DELETE", path: one, access: admins, action: byID(u.remove),
			summary:  "Delete a user: unknown at once, the data is purged after 30 days.",
			outcomes: []outcome{jsonOutcome[deletedView](202, "it is deleted")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			id: "getUserLedger", method: "GET", path: one + "/ledger", access: admins, action: byID(u.ledger),
			summary:  "Show what a user's account is charged.",
			outcomes: []outcome{jsonOutcome[ledgerView](200, "the balance, in bytes")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// userView is the JSON in replies to POST /admin/users, GET /admin/users, PATCH /admin/users/{id}.
type userView struct {
	ID        drive.UserID    `json:"id"`
	Name      string          `json:"name"`
	Admin     bool            `json:"admin"`
	State     account.State   `json:"state" enum:"active,disabled"`
	AccountID drive.AccountID `json:"account_id"`
	Total     *drive.ByteSize `json:"total"` // bytes; null: unlimited
	CreatedAt drive.Time      `json:"created_at"`
	UpdatedAt drive.Time      `json:"updated_at"`
	LastLogin *drive.Time     `json:"last_login_at"` // null: never
	// MustChange says that the user must set a new password at the next login.
	MustChange bool `json:"must_change_password"`
}

// showUser converts its argument to the userView that replies contain. It does no I/O.
func showUser(u admin.User) userView {
	return userView{u.ID, u.Name, u.Admin, u.State, u.Account, u.Balance.Total, u.CreatedAt, u.UpdatedAt, timeOrNull(u.LastLogin), u.MustChange}
}

// userBody is the JSON request body of POST /admin/users.
type userBody struct {
	Name     string      `json:"name" doc:"1 to 64 bytes of visible characters"`
	Password string      `json:"password" doc:"10 to 1,024 bytes"`
	Total    admin.Total `json:"total,omitempty" nullable:"true" doc:"bytes; null: unlimited; absent: the server's default"`
	Admin    bool        `json:"admin,omitempty"`

	MustChange bool `json:"must_change_password,omitempty" doc:"true: a session with this password must set a new one first"`
}

// create serves POST /admin/users. It replies 201 with userView. Beyond the errors common to all
// routes it fails with drive.NameTaken.
func (u users) create(ctx context.Context, c *call, in *userBody) (reply, error) {
	user := admin.NewUser{Name: in.Name, Password: in.Password, Total: in.Total, Admin: in.Admin, MustChange: in.MustChange}
	if c.key.IsZero() {
		made, err := u.admin.CreateUser(ctx, c.who, user)
		if err != nil {
			return reply{}, err
		}
		return created(showUser(made))
	}
	r, err := u.admin.CreateUserOnce(ctx, c.who, user, c.request(), func(made admin.User) (int, []byte, error) {
		raw, err := json.Marshal(showUser(made))
		return http.StatusCreated, raw, err
	})
	return replayOf(r), err
}

// list serves GET /admin/users. It replies 200 with api.Page[userView]. Beyond the errors common
// to all routes it fails with drive.CursorInvalid. The query parameter "name" selects one user,
// ignoring case.
func (u users) list(ctx context.Context, c *call) (reply, error) {
	page, err := u.admin.ListUsers(ctx, c.who, admin.UserQuery{
		Name: c.query.Get("name"), Cursor: c.query.Get(cursor.name), Limit: c.limit(),
	})
	if err != nil {
		return reply{}, err
	}
	list := api.Page[userView]{Items: make([]userView, len(page.Items))}
	for i, user := range page.Items {
		list.Items[i] = showUser(user)
	}
	if page.Next != "" {
		list.NextCursor = &page.Next
	}
	return ok(list)
}

// userChangeBody is the JSON request body of PATCH /admin/users/{id}.
type userChangeBody struct {
	Total    admin.Total   `json:"total,omitempty" nullable:"true" doc:"bytes; null: unlimited"`
	Password *string       `json:"password,omitempty" doc:"10 to 1,024 bytes; ends the user's sessions and tokens"`
	State    account.State `json:"state,omitempty" enum:"active,disabled"`
	Admin    *bool         `json:"admin,omitempty" doc:"true: administrator; the last active administrator cannot be demoted"`

	MustChange bool `json:"must_change_password,omitempty" doc:"true: a session with the new password must set another one first"`
}

// change serves PATCH /admin/users/{id}. It replies 200 with userView. Beyond the errors common to
// all routes it fails with drive.NotFound or drive.WrongState. All fields of the body are changed,
// or none. A new password ends the user's sessions and tokens.
func (u users) change(ctx context.Context, c *call, id drive.UserID, in *userChangeBody) (reply, error) {
	changed, err := u.admin.SetUser(ctx, c.who, id, admin.Change{Total: in.Total, Password: in.Password, State: in.State, Admin: in.Admin, MustChange: in.MustChange})
	if err != nil {
		return reply{}, err
	}
	return ok(showUser(changed))
}

// deletedView is the JSON in replies to DELETE /admin/users/{id}.
type deletedView struct {
	ID         drive.UserID `json:"id"`
	PurgeAfter drive.Time   `json:"purge_after"`
}

// remove serves DELETE /admin/users/{id}. It replies 202 with deletedView. Beyond the errors common
// to all routes it fails with drive.NotFound or drive.WrongState. The user is unknown at once; the
// data is purged after account.DeletedKeep.
func (u users) remove(ctx context.Context, c *call, id drive.UserID) (reply, error) {
	purge := drive.TimeOf(u.now().Add(account.DeletedKeep))
	return reply{status: http.StatusAccepted, body: deletedView{id, purge}}, u.admin.DeleteUser(ctx, c.who, id)
}

// ledgerView is the JSON in replies to GET /admin/users/{id}/ledger.
type ledgerView struct {
	Total      *drive.ByteSize `json:"total"` // null: unlimited
	Finished   drive.ByteSize  `json:"finished"`
	Unfinished drive.ByteSize  `json:"unfinished"`
	Reserved   drive.ByteSize  `json:"reserved"`
	Owed       drive.ByteSize  `json:"owed" doc:"bytes deleted but still stored; all four together may be twice the total (Q6)"`
}

// ledger serves GET /admin/users/{id}/ledger. It replies 200 with ledgerView. Beyond the errors
// common to all routes it fails with drive.NotFound.
func (u users) ledger(ctx context.Context, c *call, id drive.UserID) (reply, error) {
	b, err := u.admin.LedgerOf(ctx, c.who, id)
	return reply{status: http.StatusOK, body: ledgerView{b.Total, b.Finished, b.Unfinished, b.Reserved, b.Owed}}, err
}
