package rest

import (
	"encoding/json"
	"net/http"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/usecase/admin"
	"smartdrive/internal/usecase/files"
)

const usersPath = "/admin/users"

func (a *API) userRoutes() []route {
	one := usersPath + "/{id}"
	return []route{
		{
			method: "POST", path: usersPath, need: admins, act: takes((*call).createUser), once: true, created: usersPath,
			does: "Create a user with an account of their own.",
			out:  []outcome{gives[userView](201, "the user")}, fails: []drive.Kind{drive.NameTaken},
		}, {
			method: "GET", path: usersPath, need: admins, act: plain((*call).listUsers),
			query: []param{{name: "name", says: "only the user of this name, whatever its case"}, limitParam, cursor},
			does:  "List the users by name.",
			out:   []outcome{gives[files.Page[userView]](200, "a page")}, fails: []drive.Kind{drive.CursorInvalid},
		}, {
			method: "PATCH", path: one, need: admins, act: takes((*call).changeUser),
			does: "Change a user, all of it or nothing. A total below what is used is possible: growth is refused from then on.",
			out:  []outcome{gives[userView](200, "the user")}, fails: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			method: "DELETE", path: one, need: admins, act: plain((*call).deleteUser),
			does: "Delete a user: unknown at once, the data is purged after 30 days.",
			out:  []outcome{gives[deletedView](202, "it is deleted")}, fails: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			method: "GET", path: one + "/ledger", need: admins, act: plain((*call).getLedger),
			does: "Show what a user's account is charged.",
			out:  []outcome{gives[ledgerView](200, "the balance, in bytes")}, fails: []drive.Kind{drive.NotFound},
		},
	}
}

type userView struct {
	ID        drive.UserID    `json:"id"`
	Name      string          `json:"name"`
	Admin     bool            `json:"admin"`
	State     account.State   `json:"state" enum:"active,disabled"`
	AccountID drive.AccountID `json:"account_id"`
	Total     *drive.ByteSize `json:"total"` // bytes; null: unlimited
	CreatedAt drive.Time      `json:"created_at"`
	UpdatedAt drive.Time      `json:"updated_at"`
}

func showUser(u admin.User) userView {
	return userView{u.ID, u.Name, u.Admin, u.State, u.Account, u.Balance.Total, u.CreatedAt, u.UpdatedAt}
}

type userBody struct {
	Name     string      `json:"name" doc:"1 to 64 bytes of visible characters"`
	Password string      `json:"password" doc:"8 to 1,024 bytes"`
	Total    admin.Total `json:"total,omitempty" nullable:"true" doc:"bytes; null: unlimited; absent: the server's default"`
	Admin    bool        `json:"admin,omitempty"`
}

func (c *call) createUser(in *userBody) (reply, error) {
	user := admin.NewUser{Name: in.Name, Password: in.Password, Total: in.Total, Admin: in.Admin}
	if c.key.IsZero() {
		u, err := c.Admin.CreateUser(c.ctx(), c.who, user)
		if err != nil {
			return reply{}, err
		}
		return created(showUser(u))
	}
	r, err := c.Admin.CreateUserOnce(c.ctx(), c.who, user, c.request(), func(u admin.User) (int, []byte, error) {
		raw, err := json.Marshal(showUser(u))
		return http.StatusCreated, raw, err
	})
	return replayOf(r), err
}

func (c *call) listUsers() (reply, error) {
	page, err := c.Admin.ListUsers(c.ctx(), c.who, admin.UserQuery{
		Name: c.query.Get("name"), Cursor: c.query.Get(cursor.name), Limit: c.limit(),
	})
	if err != nil {
		return reply{}, err
	}
	list := files.Page[userView]{Items: make([]userView, len(page.Items))}
	for i, u := range page.Items {
		list.Items[i] = showUser(u)
	}
	if page.Next != "" {
		list.NextCursor = &page.Next
	}
	return ok(list)
}

type userChangeBody struct {
	Total    admin.Total   `json:"total,omitempty" nullable:"true" doc:"bytes; null: unlimited"`
	Password *string       `json:"password,omitempty" doc:"8 to 1,024 bytes; ends the user's sessions and tokens"`
	State    account.State `json:"state,omitempty" enum:"active,disabled"`
}

// user reads the id in the path.
func (c *call) user() (drive.UserID, error) { return drive.ParseID[drive.UserID](c.r.PathValue("id")) }

func (c *call) changeUser(in *userChangeBody) (reply, error) {
	id, err := c.user()
	if err != nil {
		return reply{}, err
	}
	u, err := c.Admin.SetUser(c.ctx(), c.who, id, admin.Change{Total: in.Total, Password: in.Password, State: in.State})
	if err != nil {
		return reply{}, err
	}
	return ok(showUser(u))
}

type deletedView struct {
	ID         drive.UserID `json:"id"`
	PurgeAfter drive.Time   `json:"purge_after"`
}

func (c *call) deleteUser() (reply, error) {
	id, err := c.user()
	if err != nil {
		return reply{}, err
	}
	purge := drive.TimeOf(c.Now().Add(account.DeletedKeep))
	return reply{status: http.StatusAccepted, body: deletedView{id, purge}}, c.Admin.DeleteUser(c.ctx(), c.who, id)
}

type ledgerView struct {
	Total      *drive.ByteSize `json:"total"` // null: unlimited
	Finished   drive.ByteSize  `json:"finished"`
	Unfinished drive.ByteSize  `json:"unfinished"`
	Reserved   drive.ByteSize  `json:"reserved"`
}

func (c *call) getLedger() (reply, error) {
	id, err := c.user()
	if err != nil {
		return reply{}, err
	}
	b, err := c.Admin.LedgerOf(c.ctx(), c.who, id)
	return reply{status: http.StatusOK, body: ledgerView{b.Total, b.Finished, b.Unfinished, b.Reserved}}, err
}
