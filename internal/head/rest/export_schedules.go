package rest

import (
	"smartdrive/internal/base/drive"
	"smartdrive/internal/export"
	"smartdrive/internal/usecase/files"
)

const exportSchedulesPath = "/export-schedules"

func (a *API) exportScheduleRoutes() []route {
	return []route{
		{
			method: "POST", path: exportSchedulesPath, need: write, act: takes((*call).createExportSchedule),
			does: "Have a folder exported each month: on the 1st at 02:00, what was last changed in the month before. The month that is running is the first.",
			out:  []outcome{gives[export.Schedule](201, "the schedule")},
			// A second one shows in the list, and is deleted with a word; so it takes no key.
			fails: []drive.Kind{drive.NotFound, drive.WrongState, drive.BadName, drive.TooManyOpen, drive.Forbidden},
		}, {
			method: "GET", path: exportSchedulesPath, need: read, act: plain((*call).listExportSchedules), query: []param{limitParam, cursor},
			does: "List the schedules.",
			out:  []outcome{gives[files.Page[export.Schedule]](200, "a page")}, fails: []drive.Kind{drive.CursorInvalid},
		}, {
			method: "DELETE", path: exportSchedulesPath + "/{id}", need: write, act: plain((*call).deleteExportSchedule),
			does: "End a schedule; the batches that it has made stay.",
			out:  []outcome{nothing(204, "it is over")}, fails: []drive.Kind{drive.NotFound},
		},
	}
}

type exportScheduleBody struct {
	Folder   string        `json:"folder" doc:"id of a folder, or root"`
	Name     string        `json:"name,omitempty" doc:"of the directory in the zips; the folder's if absent"`
	Filter   export.Filter `json:"filter,omitempty" doc:"which files are meant; without a month"`
	Zone     string        `json:"zone,omitempty" doc:"time zone, as Asia/Shanghai; UTC if absent"`
	Priority int64         `json:"priority,omitempty" minimum:"-100" maximum:"100"`
	Bucket   bool          `json:"bucket,omitempty" doc:"send each zip to the bucket of --export-bucket, as soon as it is sealed"`
}

func (c *call) createExportSchedule(in *exportScheduleBody) (reply, error) {
	folder, err := c.Files.ParseNode(c.ctx(), c.who, in.Folder)
	if err != nil {
		return reply{}, err
	}
	s, err := c.Exports.CreateSchedule(c.ctx(), c.who, export.Schedule{
		Folder: folder, Name: in.Name, Filter: in.Filter, Zone: in.Zone, Priority: in.Priority, Bucket: in.Bucket,
	})
	if err != nil {
		return reply{}, err
	}
	return created(s)
}

func (c *call) listExportSchedules() (reply, error) {
	all, err := c.Exports.Schedules(c.ctx(), c.who)
	if err != nil {
		return reply{}, err
	}
	return pageOf(c, all, func(s export.Schedule) string { return s.ID.String() })
}

func (c *call) deleteExportSchedule() (reply, error) {
	id, err := drive.ParseID[drive.ScheduleID](c.r.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	return empty(c.Exports.DeleteSchedule(c.ctx(), c.who, id))
}
