package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/sqldb"
)

// A schedule creates a batch on the first day of each month at two o'clock: of a folder, with the
// files modified in the month before or changed since the last export; or of a list, a file in the
// drive that is read at that time.
//
// The row holds the next month and its due time. One transaction creates the batch and advances the
// row, and the slot of the batch (schedule and month) is unique. So concurrent or crashing
// instances create exactly one batch per month (X6). After a downtime, the missed months of a
// folder are exported one after the other, but a list and the changes since the last export once:
// the batches of the other months would have the same files.

const (
	scheduleHour = 2   // hour of day, in the zone of the schedule
	maxSchedules = 100 // per account
)

// Schedule is an order to export a folder, or a list, after the end of each month, as shown to its
// owner.
type Schedule struct {
	ID       drive.ScheduleID `json:"id"`
	Folder   drive.NodeID     `json:"folder,omitzero" doc:"absent if there is a list"`
	List     drive.NodeID     `json:"list,omitzero" doc:"id of a list file, as in POST /exports/manifest; read each month"`
	Name     string           `json:"name"`
	Filter   Filter           `json:"filter,omitzero"`
	Zone     string           `json:"zone"`
	Priority int64            `json:"priority"`
	Bucket   bool             `json:"bucket" doc:"each zip is copied to the bucket when it is sealed"`
	Names    string           `json:"names,omitempty" doc:"pattern of the paths in the zips"`
	Index    bool             `json:"index,omitempty" doc:"each zip contains index.csv, a list of all entries"`
	Month    string           `json:"month" doc:"next month to export"`
	DueAt    drive.Time       `json:"due_at"`
	Skipped  *Skipped         `json:"skipped,omitempty" doc:"last month without an export, with the reason"`

	account drive.AccountID
	user    drive.UserID
	month   int64
}

// Skipped is a month without an export.
type Skipped struct {
	Month  string `json:"month"`
	Reason string `json:"reason" doc:"not-found: the folder, the list or the user does not exist any more; state: it is in the trash; too-large: too many files, or no room for the list; too-many-open: too many exports; quota: the exports hold as much as the quota; bad-request: the list has an invalid line; damaged: the stored content of the list is damaged"`
}

// monthOf returns the number of a month: year*12 + month from 0.
func monthOf(t time.Time) int64 { return int64(t.Year())*12 + int64(t.Month()) - 1 }

// monthText formats a month number as YYYY-MM.
func monthText(m int64) string { return fmt.Sprintf("%04d-%02d", m/12, m%12+1) }

// dueAt returns the time at which the month with number m is exported: scheduleHour on the first
// day of the next month, in zone.
func dueAt(m int64, zone *time.Location) drive.Time {
	m++
	return drive.TimeOf(time.Date(int(m/12), time.Month(m%12+1), 1, scheduleHour, 0, 0, 0, zone))
}

// calendar stores schedules and creates the batches of their months.
type calendar struct {
	*core
	creator *creator
	reading *atomic.Int64 // bytes of lists being read; see LimitedBody
}

// CreateSchedule creates a schedule for in.Folder or in.List, of which exactly one is set. The
// first month is the current one. The filter must not set Month, From or To. A list takes no filter
// and no names, and must be valid now. It returns BadRequest for an invalid field, Forbidden if
// Bucket is set and no bucket is configured, TooManyOpen above maxSchedules, and the error of
// looking up the folder or list.
func (e *Exports) CreateSchedule(ctx context.Context, who drive.Who, in Schedule) (Schedule, error) {
	return e.calendar.create(ctx, who, in)
}

// create validates and inserts a schedule of the account, whose first month is the current one in
// its time zone. It returns the schedule with its id. Errors: BadRequest for a field, Forbidden for
// the bucket if there is none, TooManyOpen above maxSchedules, and those of a missing folder or
// list.
func (c *calendar) create(ctx context.Context, who drive.Who, in Schedule) (Schedule, error) {
	if in.Bucket && c.opt.Bucket == nil {
		return Schedule{}, drive.Fail(drive.Forbidden)
	}
	for field, given := range map[string]bool{
		"month": in.Filter.Month != "", "from": in.Filter.From != "", "to": in.Filter.To != "",
	} {
		if given {
			return Schedule{}, drive.BadField(field, drive.Unknown)
		}
	}
	if _, err := parseNaming(in.Names, in.Filter.Documents); err != nil {
		return Schedule{}, err
	}
	if _, err := in.Filter.compile(); err != nil {
		return Schedule{}, err
	}
	if err := checkPriority(who, in.Priority); err != nil {
		return Schedule{}, err
	}
	zone, err := zoneOf(in.Zone)
	if err != nil {
		return Schedule{}, err
	}
	if err := c.checkSource(ctx, who, &in); err != nil {
		return Schedule{}, err
	}
	name, err := drive.ParseName(in.Name)
	if err != nil {
		return Schedule{}, err
	}
	now, err := c.now(ctx)
	if err != nil {
		return Schedule{}, err
	}
	in.ID, in.Name, in.Zone, in.account, in.user = drive.NewID[drive.ScheduleID](), string(name), zone.String(), who.Account, who.User
	in.setMonth(monthOf(now.Std().In(zone)), zone)
	return in, c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return c.insert(ctx, tx, in, now) })
}

// checkSource checks the folder or the list of a new schedule, of which there must be exactly one,
// and names the schedule after it if it has no name. It fails as liveFolder does, and as readList
// does for a list.
func (c *calendar) checkSource(ctx context.Context, who drive.Who, in *Schedule) error {
	if in.Folder.IsZero() == in.List.IsZero() {
		return drive.BadField("folder", drive.NotTogether, "with", "list: exactly one of them")
	}
	if in.List.IsZero() {
		n, _, err := c.liveFolder(ctx, who.Account, in.Folder)
		if err == nil && in.Name == "" {
			in.Name = string(n.Name)
		}
		return err
	}
	if !in.Filter.matchesAll() {
		return drive.BadField("filter", drive.NotTogether, "with", "list")
	}
	if in.Names != "" {
		return drive.BadField("names", drive.NotTogether, "with", "list")
	}
	end, err := acquireTurn(ctx, c.creator.lists.turns, who.Account)
	if err != nil {
		return err
	}
	defer end()
	text := &LimitedBody{all: c.reading}
	defer text.Close()
	n, _, err := c.readList(ctx, who.Account, in.List, text)
	if err == nil && in.Name == "" {
		in.Name = strings.TrimSuffix(string(n.Name), path.Ext(string(n.Name)))
	}
	return err
}

// setMonth sets the month that the schedule exports next, and the time at which that is due in
// zone, in s only.
func (s *Schedule) setMonth(m int64, zone *time.Location) {
	s.month, s.Month, s.DueAt = m, monthText(m), dueAt(m, zone)
}

// following returns the number of the month that the schedule exports after its due month.
// Schedules of a list, and of the changes since the last export, skip months that are due already
// at now, because one export covers them.
func (s Schedule) following(now drive.Time, zone *time.Location) int64 {
	m := s.month + 1
	for (s.Filter.SinceLast || !s.List.IsZero()) && dueAt(m, zone) <= now {
		m++
	}
	return m
}

// insert inserts a schedule within tx, after it has locked the account's ledger and counted. It
// returns TooManyOpen if the account has maxSchedules already.
func (c *calendar) insert(ctx context.Context, tx *sqldb.Tx, s Schedule, now drive.Time) error {
	if err := c.opt.Ledger.Lock(ctx, tx, s.account); err != nil {
		return err
	}
	var have int
	if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM export_schedules WHERE account_id = ?", s.account).Scan(&have); err != nil {
		return err
	}
	if have >= maxSchedules {
		return drive.Fail(drive.TooManyOpen, "reason", "schedules", "limit", maxSchedules, "sent", have+1)
	}
	what, err := s.stored(nil)
	if err != nil {
		return err
	}
	node := s.Folder
	if node.IsZero() {
		node = s.List
	}
	_, err = tx.Exec(ctx, "INSERT INTO export_schedules ("+scheduleColumns+", created_at) VALUES ("+sqldb.Placeholders(11)+")",
		s.ID, s.account, s.user, node, s.Name, what, s.Zone, s.Priority, s.month, s.DueAt, now)
	if err != nil {
		return fmt.Errorf("insert schedule %s: %w", s.ID, err)
	}
	return nil
}

// storedSchedule is the JSON in the column filter.
type storedSchedule struct {
	Filter
	List    bool     `json:"list,omitempty"` // node_id is a list, not a folder
	Bucket  bool     `json:"bucket,omitempty"`
	Names   string   `json:"names,omitempty"`
	Index   bool     `json:"index,omitempty"`
	Skipped *Skipped `json:"skipped,omitempty"`
}

// stored returns the value of the column filter, with the month that was skipped last.
func (s Schedule) stored(skipped *Skipped) (string, error) {
	raw, err := json.Marshal(storedSchedule{s.Filter, !s.List.IsZero(), s.Bucket, s.Names, s.Index, skipped})
	return string(raw), err
}

// scheduleColumns are the columns that scanSchedule reads.
const scheduleColumns = "id, account_id, user_id, node_id, name, filter, zone, priority, month, due_at"

// scanSchedule reads a row of scheduleColumns into s by calling scan. It returns the error of scan,
// or that of damaged JSON.
func scanSchedule(s *Schedule, scan func(...any) error) error {
	var raw string
	if err := scan(&s.ID, &s.account, &s.user, &s.Folder, &s.Name, &raw, &s.Zone, &s.Priority, &s.month, &s.DueAt); err != nil {
		return err
	}
	var what storedSchedule
	err := json.Unmarshal([]byte(raw), &what)
	s.Month, s.Filter, s.Bucket = monthText(s.month), what.Filter, what.Bucket
	s.Names, s.Index, s.Skipped = what.Names, what.Index, what.Skipped
	if what.List {
		s.Folder, s.List = drive.NodeID{}, s.Folder
	}
	return err
}

// Schedules returns the schedules of the caller's account, maxSchedules at most, by id. An account
// without schedules has an empty result.
func (e *Exports) Schedules(ctx context.Context, who drive.Who) ([]Schedule, error) {
	return e.calendar.list(ctx, who)
}

// list returns the schedules of the account by id, maxSchedules at most.
func (c *calendar) list(ctx context.Context, who drive.Who) ([]Schedule, error) {
	rows, err := c.opt.DB.For(who.Account).Query(ctx, "SELECT "+scheduleColumns+" FROM export_schedules WHERE account_id = ? ORDER BY id LIMIT ?",
		who.Account, maxSchedules)
	return sqldb.Scan(rows, err, scanSchedule)
}

// DeleteSchedule deletes a schedule of the caller's account. Its batches stay. An unknown id is
// NotFound.
func (e *Exports) DeleteSchedule(ctx context.Context, who drive.Who, id drive.ScheduleID) error {
	return e.calendar.remove(ctx, who, id)
}

// remove deletes a schedule of the account in a transaction of its own, or returns NotFound.
func (c *calendar) remove(ctx context.Context, who drive.Who, id drive.ScheduleID) error {
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "DELETE FROM export_schedules WHERE id = ? AND account_id = ?", id, who.Account)
		if err == nil && n == 0 {
			err = drive.Fail(drive.NotFound)
		}
		return err
	})
}

// duePage is the number of schedules run between two polls for other work.
const duePage = 20

// errExists reports that another instance or request has created the batch, or advanced the
// schedule, first.
var errExists = errors.New("the month's batch is made already")

// retrySchedule is the time after which a schedule that failed is due again.
const retrySchedule = time.Minute

// run creates the batches of up to duePage due schedules. A failing schedule does not block the
// others: it is due again later. run returns all errors joined.
func (c *calendar) run(ctx context.Context) error {
	now, err := c.now(ctx)
	if err != nil {
		return err
	}
	rows, err := c.opt.DB.Query(ctx, "SELECT "+scheduleColumns+" FROM export_schedules WHERE due_at <= ? ORDER BY due_at, id LIMIT ?", now, duePage)
	due, err := sqldb.Scan(rows, err, scanSchedule)
	if err != nil {
		return fmt.Errorf("look for schedules that are due: %w", err)
	}
	var errs []error
	for _, s := range due {
		if err := c.runOne(ctx, s); err != nil && !errors.Is(err, errExists) {
			errs = append(errs, fmt.Errorf("run schedule %s for %s: %w", s.ID, s.Month, err), c.postpone(ctx, s))
		}
	}
	return errors.Join(errs...)
}

// postpone makes a schedule that failed due again after retrySchedule, unless another instance has
// changed it since.
func (c *calendar) postpone(ctx context.Context, s Schedule) error {
	now, err := c.now(ctx)
	if err != nil {
		return err
	}
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE export_schedules SET due_at = ? WHERE id = ? AND month = ? AND due_at = ?", now.Add(retrySchedule), s.ID, s.month, s.DueAt)
		return err
	})
}

// skip stores within tx why the due month has no batch, which replaces the reason of an earlier
// month, and notifies the owner of the schedule. It does not advance the schedule to the next
// month.
func (c *calendar) skip(ctx context.Context, tx *sqldb.Tx, s Schedule, reason string) error {
	what, err := s.stored(&Skipped{Month: s.Month, Reason: reason})
	if err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, "UPDATE export_schedules SET filter = ? WHERE id = ?", what, s.ID); err != nil || c.opt.Events == nil {
		return err
	}
	record, err := notice.NewRecord(notice.Cause{
		Kind: notice.Export, What: notice.Skipped, Account: s.account, User: s.user,
		Data: notice.Data{Name: s.Name, Subject: s.ID.String(), Reason: reason},
	})
	if err != nil {
		return err
	}
	return c.opt.Events.Append(ctx, tx, record)
}

// request returns what the schedule asks for in its due month. It reads the list, if the schedule
// has one, through text, and fails as readList does.
func (c *calendar) request(ctx context.Context, s Schedule, text *LimitedBody) (in Request, err error) {
	in = Request{Name: s.Name, Folder: s.Folder, Filter: s.Filter, Priority: s.Priority, Names: s.Names, Index: s.Index}
	if s.List.IsZero() {
		in.Filter.Zone = s.Zone
		if !in.Filter.SinceLast {
			in.Filter.Month = s.Month
		}
		return in, nil
	}
	_, in.Manifest, err = c.readList(ctx, s.account, s.List, text)
	return in, err
}

// runOne creates the batch, or the set of batches, of the due month and advances the schedule to
// the next month. If the user is disabled, the folder or list is missing, or the list is invalid or
// exceeds a limit of the account, it skips the month, records the reason, notifies the owner, and
// returns nil. It returns errExists if another instance has run the month.
func (c *calendar) runOne(ctx context.Context, s Schedule) error {
	zone, err := zoneOf(s.Zone)
	if err != nil {
		return err
	}
	now, err := c.now(ctx)
	if err != nil {
		return err
	}
	next := s.following(now, zone)
	who := drive.Who{User: s.user, Account: s.account}
	var list *listBuilder
	end, err := acquireTurn(ctx, c.creator.lists.turns, s.account)
	if err != nil {
		return err
	}
	defer end()
	text := &LimitedBody{all: c.reading}
	defer text.Close()
	in, err := c.request(ctx, s, text)
	if err == nil {
		err = c.checkOwner(ctx, s, &in)
	}
	if err == nil {
		list, err = c.creator.buildList(ctx, who, &in)
	}
	advance := func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE export_schedules SET month = ?, due_at = ? WHERE id = ? AND month = ?", next, dueAt(next, zone), s.ID, s.month)
		if err == nil && n == 0 {
			err = errExists
		}
		return err
	}
	if err == nil {
		_, err = c.creator.createSet(ctx, draft{
			who: who, name: s.Name, origin: Scheduled, list: list.list, priority: in.Priority, beforeInsert: advance,
			request: storedRequest{Request: in, Entries: len(in.Manifest), Month: s.Month, Bucket: s.Bucket, Mark: list.nextMark},
			slot:    "schedule/" + s.ID.String() + "/" + s.Month,
		})
	}
	if cause := err; drive.IsKind(cause, drive.NotFound, drive.WrongState, drive.TooLarge, drive.TooManyOpen, drive.Quota, drive.BadRequest) {
		c.log.WarnContext(ctx, "a schedule skips its month; the reason is shown to its owner", "schedule", s.ID, "month", s.Month, "error", err)
		return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := advance(ctx, tx); err != nil {
				return err
			}
			return c.skip(ctx, tx, s, skipReason(cause))
		})
	}
	return err
}

// skipReason returns the code that is shown for a month without an export: reasonDamaged for a
// damaged list, else the kind of err.
func skipReason(err error) string {
	if errors.Is(err, errListDamaged) {
		return reasonDamaged
	}
	return drive.KindOf(err).String()
}

// checkOwner returns NotFound if the user of the schedule is disabled or deleted. If the user is no
// longer an administrator, it sets a priority above 0 in in to 0.
func (c *calendar) checkOwner(ctx context.Context, s Schedule, in *Request) error {
	if _, err := c.opt.Users.LinkEpoch(ctx, s.user); err != nil || in.Priority <= 0 {
		return err
	}
	user, err := c.opt.Users.Find(ctx, c.opt.DB, s.user)
	if err == nil && !user.Admin {
		in.Priority = 0
	}
	return err
}
