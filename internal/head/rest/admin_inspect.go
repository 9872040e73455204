package rest

import (
	"context"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/growth"
	"example.org/smartdrive/internal/engine/timer"
)

// inspection serves the administrators' read-only routes on the state of the installation.
type inspection struct {
	timers     *timer.Engine
	timerSteps func(ctx context.Context, key timer.Key) ([]TimerStep, error)
	findings   Findings
	status     func(ctx context.Context) (Status, error)
	growth     *growth.Growth
	mail       func(ctx context.Context) (MailReport, error)
}

// maxDays is the largest number of days of growth in one response: ten years.
const maxDays = 3660

// daysParam declares the query parameter "days".
var daysParam = param{name: "days", syntax: integer, min: 1, max: maxDays, def: 90, doc: "how many days, today among them"}

// routes returns the declarations of the routes that inspection serves. It registers nothing.
func (i inspection) routes() []route {
	all := []route{
		{
			id: "getTimer", method: "GET", path: "/admin/timers/{key...}", access: admins, action: withoutBody(i.showTimer),
			summary:  "Show what the queue knows of a timer, and the way of its firings of the last three days: armed, fired, published and consumed (with a broker), applied. A key is its kind and the id of what it watches: `park/0198c0de-...`. A timer that has fired and is not armed again is shown with its way only.",
			outcomes: []outcome{jsonOutcome[TimerView](200, "the timer")}, errors: []drive.Kind{drive.NotFound},
		}, {
			id: "getStatus", method: "GET", path: "/admin/status", access: admins, action: withoutBody(i.showStatus),
			summary:  "Show who serves the installation: the instances, who does what only one does, how many timers wait, and how far the consumers of events are behind.",
			outcomes: []outcome{jsonOutcome[Status](200, "the installation as this instance sees it")},
		}, {
			id: "listGrowth", method: "GET", path: "/admin/growth", access: admins, action: withoutBody(i.showGrowth), query: []param{daysParam},
			summary:  "Show how the installation grew: a row a day, the oldest first. The figures of a day are taken each hour; a day on which no server ran is absent.",
			outcomes: []outcome{jsonOutcome[Growth](200, "the days")},
		}, {
			id: "listFindings", method: "GET", path: "/admin/findings", access: admins, action: withoutBody(i.listFindings), query: []param{limitParam, cursor},
			summary:  "List audit findings, the newest first.",
			outcomes: []outcome{jsonOutcome[api.Page[Finding]](200, "a page")}, errors: []drive.Kind{drive.CursorInvalid},
		},
	}
	return append(all, i.mailRoute())
}

// showTimer serves GET /admin/timers/{key...}. It replies 200 with TimerView. Beyond the errors
// common to all routes it fails with drive.NotFound. A malformed key is answered like an unknown
// one; a fired timer is shown with its trace only.
func (i inspection) showTimer(ctx context.Context, c *call) (reply, error) {
	key, err := timer.ParseKey(c.r.PathValue("key"))
	if err != nil {
		return reply{}, drive.Wrap(err, drive.NotFound) // a malformed key is answered like an unknown one
	}
	view := TimerView{Pending: true}
	if view.State, err = i.timers.Show(ctx, key); drive.IsKind(err, drive.NotFound) {
		view.State, view.Pending = timer.State{Key: key}, false
	} else if err != nil {
		return reply{}, err
	}
	if view.Trace, err = i.timerSteps(ctx, key); err != nil {
		return reply{}, err
	}
	if !view.Pending && len(view.Trace) == 0 {
		return reply{}, drive.Fail(drive.NotFound)
	}
	return ok(view)
}

// TimerView is the state of a timer and the recorded steps of its firings.
type TimerView struct {
	timer.State
	Pending bool        `json:"pending" doc:"true: the timer is armed or its handler is running; otherwise only key and trace are set"`
	Trace   []TimerStep `json:"trace" doc:"latest 200 steps, oldest first"`
}

// TimerStep is one recorded step of a timer's firing.
type TimerStep struct {
	Gen      int64      `json:"gen"`
	Step     string     `json:"step" enum:"armed,fired,published,consumed,applied,snoozed,waited,failed,dead"`
	Began    drive.Time `json:"began" doc:"begin of the period that ends with the step: for fired the due time, for consumed the time of publication"`
	At       drive.Time `json:"at"`
	Delivery int        `json:"delivery"`
	Instance string     `json:"instance" doc:"generation of the instance"`
	Reason   string     `json:"reason,omitempty" doc:"error code"`

	PushBacks    *int64     `json:"push_backs,omitempty" doc:"for fired: how often activity postponed the timer since it was armed"`
	LastPushBack drive.Time `json:"last_push_back,omitzero" doc:"for fired: time of the last postponement"`
	Shard        string     `json:"shard,omitempty" doc:"for fired: shard and number of shards"`
	Slice        string     `json:"slice,omitempty" doc:"for fired: UTC minute or hour of the time slice; absent if timers are in memory"`
}

// Finding is a violation of an invariant that an audit has found.
type Finding struct {
	ID        string     `json:"id"`
	At        drive.Time `json:"at"`
	Invariant string     `json:"invariant"` // its number in docs/invariants.md
	Subject   string     `json:"subject"`
	Expected  string     `json:"expected"`
	Found     string     `json:"found"`
	Repaired  bool       `json:"repaired"`
}

// listFindings serves GET /admin/findings. It replies 200 with api.Page[Finding]. Beyond the
// errors common to all routes it fails with drive.CursorInvalid.
func (i inspection) listFindings(ctx context.Context, c *call) (reply, error) {
	items, next, err := i.findings(ctx, c.query.Get(cursor.name), c.limit())
	if err != nil {
		return reply{}, err
	}
	page := api.Page[Finding]{Items: items}
	if items == nil {
		page.Items = []Finding{}
	}
	if next != "" {
		page.NextCursor = &next
	}
	return ok(page)
}

// Growth is the daily growth of the installation, the oldest day first.
type Growth struct {
	Days []growth.Day `json:"days"`
}

// showGrowth serves GET /admin/growth. It replies 200 with Growth. Days without samples are absent.
func (i inspection) showGrowth(ctx context.Context, c *call) (reply, error) {
	days, err := i.growth.List(ctx, c.number(daysParam))
	if err != nil {
		return reply{}, err
	}
	return ok(Growth{Days: append([]growth.Day{}, days...)})
}

// Status is the state of the installation. A part that cannot be read at the moment is absent, and
// Failing names the part.
type Status struct {
	Installation string                     `json:"installation"`
	Mode         string                     `json:"mode"`
	Restored     bool                       `json:"restored" doc:"true: a backup was restored, and nothing is deleted until fsck finds no defects and the server is restarted"`
	Instances    []Instance                 `json:"instances"`
	Leases       []Lease                    `json:"leases"`
	Timers       map[string]timer.DueCounts `json:"timers"` // by kind
	Consumers    []Lag                      `json:"consumers"`
	Unsent       *Unsent                    `json:"unsent,omitempty"`
	Backup       *Backup                    `json:"backup,omitempty"`
	Failing      []string                   `json:"failing"`
}

// Backup is the result of the last "admin backup".
type Backup struct {
	TakenAt  drive.Time `json:"taken_at"`
	Contents int64      `json:"contents"`
	Missing  int64      `json:"missing" doc:"contents missing in the installation"`
	Damaged  int64      `json:"damaged" doc:"contents damaged in the installation"`
}

// Instance is a process that serves the installation now or did recently.
type Instance struct {
	Generation int64      `json:"generation"`
	Host       string     `json:"host"`
	Roles      string     `json:"roles"`
	Version    string     `json:"version"`
	JoinedAt   drive.Time `json:"joined_at"`
	SeenAt     drive.Time `json:"seen_at"`
	Alive      bool       `json:"alive"`
}

// Lease names the instance that holds a lease.
type Lease struct {
	Name       string     `json:"name"`
	Generation int64      `json:"generation"`
	Epoch      int64      `json:"epoch"`
	TakenAt    drive.Time `json:"taken_at"`
}

// Lag is the backlog of a consumer of events, in records.
type Lag struct {
	Consumer string `json:"consumer"`
	Topic    string `json:"topic"`
	Behind   int64  `json:"behind"`
	Waiting  int64  `json:"waiting"`
}

// Unsent counts the records in the outbox that no broker has acknowledged yet. OldestMs is the age
// of the oldest record in milliseconds.
type Unsent struct {
	Records  int64 `json:"records"`
	OldestMs int64 `json:"oldest_ms"`
}

// showStatus serves GET /admin/status. It replies 200 with Status, or with the error of collecting
// it.
func (i inspection) showStatus(ctx context.Context, _ *call) (reply, error) {
	return answer(i.status(ctx))
}
