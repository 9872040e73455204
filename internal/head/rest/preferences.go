package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"example.org/smartdrive/internal/base/drive"
)

// maxPreferences bounds the stored preferences of a user. They are settings, not a data store.
const maxPreferences = 16 << 10 // bytes

// preferences is a JSON object that the pages interpret and the server stores as it is.
type preferences map[string]any

// preferenceRoutes returns the declarations of the routes that profile serves. It registers
// nothing.
func (p profile) preferenceRoutes() []route {
	const path = "/me/preferences"
	return []route{
		{
			id: "getPreferences", method: "GET", path: path, access: read, action: withoutBody(p.preferences), beforeNewPassword: true,
			summary:  "Show what the user chose on the pages, such as language, theme and view: an empty object if nothing.",
			outcomes: []outcome{jsonOutcome[preferences](200, "the choices")},
		}, {
			id: "setPreferences", method: "PUT", path: path, access: write, action: action{body: reflect.TypeFor[preferences](), run: p.setPreferences},
			summary:  "Keep a JSON object of at most 16 KiB in place of the one before. The server does not look into it.",
			outcomes: []outcome{emptyOutcome(204, "it is kept")},
		},
	}
}

// preferences serves GET /me/preferences. It replies 200 with the stored JSON object, empty if
// there is none.
func (p profile) preferences(ctx context.Context, c *call) (reply, error) {
	value, err := p.users.Preferences(ctx, p.db.For(c.who.Account), c.who.User)
	return reply{status: http.StatusOK, raw: value}, err
}

// setPreferences serves PUT /me/preferences: it replaces the stored object and replies 204. It
// fails with drive.BadRequest unless the body is a JSON object, and with drive.TooLarge above
// maxPreferences bytes.
func (p profile) setPreferences(ctx context.Context, c *call) (reply, error) {
	raw, err := c.readJSON(ctx)
	if err != nil {
		return reply{}, err
	}
	if _, err := splitObject(raw); err != nil {
		return reply{}, err
	}
	var value bytes.Buffer
	if err := json.Compact(&value, raw); err != nil {
		return reply{}, err
	}
	if value.Len() > maxPreferences {
		return reply{}, drive.Fail(drive.TooLarge, "limit", maxPreferences, "sent", value.Len())
	}
	return empty(p.users.SetPreferences(ctx, c.who.User, value.Bytes()))
}
