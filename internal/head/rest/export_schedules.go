package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/usecase/files"
)

// exportSchedulesPath is a route path below prefix: /export-schedules.
const exportSchedulesPath = "/export-schedules"

// exportSchedules serves the routes for schedules that export a folder or a list each month.
type exportSchedules struct {
	exports *export.Exports
	files   *files.Files
}

// routes returns the declarations of the routes that exportSchedules serves. It registers nothing.
func (e exportSchedules) routes() []route {
	return []route{
		{
			id: "createExportSchedule", method: "POST", path: exportSchedulesPath, access: write, action: withJSON(e.create),
			summary:  "Have something exported each month, on the 1st at 02:00: of a folder what was last changed in the month before, or with `since_last` since the last export; or all that a list in the drive names then. The month that is running is the first. If a month has no export, its owner gets a notice.",
			outcomes: []outcome{jsonOutcome[export.Schedule](201, "the schedule")},
			// A duplicate schedule shows in the list and is easy to delete, so it needs no
			// idempotency key.
			errors: []drive.Kind{drive.NotFound, drive.WrongState, drive.BadName, drive.TooLarge, drive.TooManyOpen, drive.Forbidden},
		}, {
			id: "listExportSchedules", method: "GET", path: exportSchedulesPath, access: read, action: withoutBody(e.list), query: []param{limitParam, cursor},
			summary:  "List the schedules.",
			outcomes: []outcome{jsonOutcome[api.Page[export.Schedule]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		}, {
			id: "deleteExportSchedule", method: "DELETE", path: exportSchedulesPath + "/{id}", access: write, action: byID(e.remove),
			summary:  "End a schedule; the batches that it has made stay.",
			outcomes: []outcome{emptyOutcome(204, "it is over")}, errors: []drive.Kind{drive.NotFound},
		},
	}
}

// exportScheduleBody is the JSON request body of POST /export-schedules.
type exportScheduleBody struct {
	Folder   string        `json:"folder,omitempty" doc:"id of a folder, or root"`
	List     string        `json:"list,omitempty" doc:"or the id of a list file, as in POST /exports/manifest; read each month"`
	Name     string        `json:"name,omitempty" doc:"name of the directory in the zips; absent: name of the folder or list"`
	Filter   export.Filter `json:"filter,omitempty" doc:"selects files of the folder; must not contain a month or days"`
	Zone     string        `json:"zone,omitempty" doc:"time zone such as Asia/Shanghai; absent: UTC"`
	Priority int64         `json:"priority,omitempty" minimum:"-100" maximum:"10" doc:"as in an export"`
	Names    string        `json:"names,omitempty" doc:"as in an export"`
	Index    bool          `json:"index,omitempty" doc:"as in an export"`
	Bucket   bool          `json:"bucket,omitempty" doc:"true: copies each zip to the bucket of --export-bucket when it is sealed"`
}

// create serves POST /export-schedules. It replies 201 with export.Schedule. Beyond the errors
// common to all routes it fails with drive.NotFound, drive.WrongState, drive.BadName,
// drive.TooLarge, drive.TooManyOpen or drive.Forbidden.
func (e exportSchedules) create(ctx context.Context, c *call, in *exportScheduleBody) (reply, error) {
	want := export.Schedule{
		Name: in.Name, Filter: in.Filter, Zone: in.Zone, Priority: in.Priority, Bucket: in.Bucket, Names: in.Names, Index: in.Index,
	}
	var err error
	if in.Folder != "" {
		want.Folder, err = e.files.ParseNode(ctx, c.who, in.Folder)
	}
	if in.List != "" && err == nil {
		want.List, err = e.files.ParseNode(ctx, c.who, in.List)
	}
	if err != nil {
		return reply{}, err
	}
	s, err := e.exports.CreateSchedule(ctx, c.who, want)
	if err != nil {
		return reply{}, err
	}
	return created(s)
}

// list serves GET /export-schedules. It replies 200 with api.Page[export.Schedule]. Beyond the
// errors common to all routes it fails with drive.CursorInvalid.
func (e exportSchedules) list(ctx context.Context, c *call) (reply, error) {
	all, err := e.exports.Schedules(ctx, c.who)
	if err != nil {
		return reply{}, err
	}
	return pageOf(c, all, func(s export.Schedule) string { return s.ID.String() })
}

// remove serves DELETE /export-schedules/{id}. It replies 204 without a body. Beyond the errors
// common to all routes it fails with drive.NotFound.
func (e exportSchedules) remove(ctx context.Context, c *call, id drive.ScheduleID) (reply, error) {
	return empty(e.exports.DeleteSchedule(ctx, c.who, id))
}
