package rest

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/setting"
)

// settings serves the administrators' routes for settings that can change while the server runs.
type settings struct {
	live *setting.Settings
}

// routes returns the declarations of the routes that settings serves. It registers nothing.
func (s settings) routes() []route {
	return []route{
		{
			id: "listSettings", method: "GET", path: "/admin/settings", access: admins, action: withoutBody(s.list),
			summary:  "List the settings that can be changed while the server runs. Those with \"fixed\" were given to the server as a flag, a variable or in its file, and are changed there alone.",
			outcomes: []outcome{jsonOutcome[Settings](200, "the settings")},
		}, {
			id: "setSetting", method: "PUT", path: "/admin/settings/{name}", access: admins, action: withJSON(s.set),
			summary:  "Change a setting: at once at the instance that answers, within five seconds at the others.",
			outcomes: []outcome{jsonOutcome[setting.Setting](200, "the setting as it is")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		}, {
			id: "resetSetting", method: "DELETE", path: "/admin/settings/{name}", access: admins, action: withoutBody(s.reset),
			summary:  "Take back what administrators have changed about a setting: it is its default again. May be repeated.",
			outcomes: []outcome{jsonOutcome[setting.Setting](200, "the setting as it is")}, errors: []drive.Kind{drive.NotFound, drive.WrongState},
		},
	}
}

// Settings lists all settings that can change while the server runs.
type Settings struct {
	Items []setting.Setting `json:"items"`
}

// newValue is the body that changes a setting.
type newValue struct {
	Value string `json:"value" doc:"value in the syntax of the command-line flag"`
}

// list serves GET /admin/settings. It replies 200 with all Settings that can change while the
// server runs.
func (s settings) list(ctx context.Context, c *call) (reply, error) {
	all, err := s.live.List(ctx, c.who)
	if err != nil {
		return reply{}, err
	}
	return ok(Settings{all})
}

// set serves PUT /admin/settings/{name}. It replies 200 with setting.Setting. Beyond the errors
// common to all routes it fails with drive.NotFound or drive.WrongState.
func (s settings) set(ctx context.Context, c *call, in *newValue) (reply, error) {
	one, err := s.live.Set(ctx, c.who, c.r.PathValue("name"), in.Value)
	if err != nil {
		return reply{}, err
	}
	return ok(one)
}

// reset serves DELETE /admin/settings/{name}. It replies 200 with setting.Setting. Beyond the
// errors common to all routes it fails with drive.NotFound or drive.WrongState. The setting has its
// default again; it may be repeated.
func (s settings) reset(ctx context.Context, c *call) (reply, error) {
	one, err := s.live.Reset(ctx, c.who, c.r.PathValue("name"))
	if err != nil {
		return reply{}, err
	}
	return ok(one)
}
