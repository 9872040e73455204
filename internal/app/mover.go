package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/move/contents"
	"example.org/smartdrive/internal/move/migrate"
)

// moveSteps implements administrators' actions on a migration, one at a time.
type moveSteps struct {
	*mover
	users *account.Users
}

var _ rest.Mover = moveSteps{}

// Status returns where the migration stands, without passwords in locations. Contents that have
// moved already leave From.Blobs empty. It fails with the error of reading the state.
func (m moveSteps) Status(ctx context.Context) (migrate.Status, error) {
	s, err := m.rows.Status(ctx)
	if err != nil || s.State != "running" {
		return s, err
	}
	contents := m.rows.State().Contents
	s.To.Blobs = config.RedactLocation(contents)
	if s.From.Blobs = showContents(contentsLocation(m.cfg)); m.atNewContents(m.rows.State()) {
		s.From.Blobs = ""
	}
	return s, nil
}

// Start checks the request and, unless in.DryRun is set or a check fails, begins the migration and
// applies its first step on this instance. The report tells which checks failed; that is no error.
// It fails for a target that is not allowed or a relative path.
func (m moveSteps) Start(ctx context.Context, who drive.Who, in rest.MigrationStart) (migrate.Report, error) {
	if err := errors.Join(m.refuseTarget(who, in), refuseRelative(in)); err != nil {
		return migrate.Report{}, err
	}
	m.steps.Lock()
	defer m.steps.Unlock()
	req := migrate.Request{
		ToDB: databaseTarget(in.ToDB), ToBlobs: strings.TrimSpace(in.ToBlobs + " " + in.ToRedis), DryRun: in.DryRun,
		FromBlobs: contentsLocation(m.cfg).Text(os.Environ()), Pace: migrate.Pace{Rows: in.Rows, Bytes: in.Bytes},
	}
	before, err := m.preflight(ctx, req)
	if err != nil {
		return migrate.Report{}, err
	}
	good := allOpen(before)
	req.DryRun = req.DryRun || !good
	report, err := m.rows.Start(ctx, req)
	report.Checks = append(before, report.Checks...)
	report.OK = report.OK && good
	if !in.DryRun {
		m.noteStep(ctx, who, "start", err, "to_db", config.RedactLocation(req.ToDB), "to_blobs", config.RedactLocation(req.ToBlobs), "ok", report.OK)
	}
	if err != nil || req.DryRun || !report.OK {
		return report, err
	}
	return report, m.applyStep(ctx)
}

// refuseTarget refuses targets of a remote caller that are not among --migration-targets. Targets
// decide which hosts and directories the server writes all data to, so a stolen administrator's
// token must not choose them. It returns drive.Forbidden, else nil.
func (m *mover) refuseTarget(who drive.Who, in rest.MigrationStart) error {
	if who.User == (drive.UserID{}) { // the control socket
		return nil
	}
	for _, at := range []string{in.ToDB, in.ToBlobs, in.ToRedis} {
		if at != "" && !slices.Contains(m.cfg.MigrationTargets, config.Secret(at)) {
			return drive.Wrap(fmt.Errorf("%s is not among --migration-targets", config.RedactLocation(at)), drive.Forbidden)
		}
	}
	return nil
}

// refuseRelative refuses a relative directory: the server's working directory differs from the
// caller's and may change at the next start. It returns drive.BadRequest, else nil.
func refuseRelative(in rest.MigrationStart) error {
	for field, where := range map[string]string{"to_db": in.ToDB, "to_blobs": in.ToBlobs} {
		if where != "" && !strings.Contains(where, "://") && !filepath.IsAbs(where) {
			return drive.BadField(field, drive.Malformed, "expected", "an absolute path", "sent", where)
		}
	}
	return nil
}

// noteStep logs a step and its result as the audit trail of administrators' actions.
func (m moveSteps) noteStep(ctx context.Context, who drive.Who, step string, err error, args ...any) {
	state := m.rows.State()
	args = append([]any{"step", step, "by", m.nameOf(ctx, who), "user", who.User, "migration", state.ID, "phase", int(state.Phase), "epoch", state.Epoch}, args...)
	if err != nil {
		m.log.WarnContext(ctx, "migration step refused", append(args, "error", err)...)
		return
	}
	m.log.InfoContext(ctx, "migration step", args...)
}

// nameOf returns a caller's name for the log; the id if the name cannot be read.
func (m moveSteps) nameOf(ctx context.Context, who drive.Who) string {
	if who.User == (drive.UserID{}) {
		return "the machine's administrator"
	}
	u, err := m.users.Find(ctx, m.db, who.User)
	if err != nil {
		return who.User.String()
	}
	return u.Name
}

// applyStep opens the new store of contents if the migration's state needs it, and records that
// this process follows the state. A store that cannot be opened is logged and is no error: the
// migration waits for it. It fails only if the record cannot be written.
func (m *mover) applyStep(ctx context.Context) error {
	if err := m.followOnce(ctx, m.rows.State()); err != nil {
		m.log.WarnContext(ctx, "the new store of contents could not be opened; the migration waits for it", "error", err) // the gate reports it as well
	}
	return m.rows.Acknowledge(ctx)
}

// allOpen reports whether every gate is open, that is, whether all conditions of a step are met. It
// is true for no gates.
func allOpen(gates []migrate.Gate) bool {
	for _, g := range gates {
		if !g.OK {
			return false
		}
	}
	return true
}

// Step executes one step and applies the new state on this instance. It fails with drive.WrongState
// where the step is not possible now. An error of applying leaves the step recorded.
func (m moveSteps) Step(ctx context.Context, who drive.Who, step rest.MigrationStep, in rest.MigrationBody) error {
	m.steps.Lock()
	defer m.steps.Unlock()
	named, err := m.accountsOf(ctx, in.Users)
	if err == nil {
		err = m.step(ctx, step, in, named)
	}
	pace := m.rows.State().Pace
	m.noteStep(ctx, who, string(step), err, "percent", in.Percent, "accounts", named, "rows_per_second", pace.Rows, "bytes_per_second", pace.Bytes, "early", in.Early)
	if err != nil {
		return err
	}
	return m.applyStep(ctx)
}

// Explain records the reason why a mismatch does not matter and who gave it. The attempt is logged,
// also when it fails.
func (m moveSteps) Explain(ctx context.Context, who drive.Who, id int64, reason string) error {
	err := m.rows.Explain(ctx, id, migrate.Explanation{Who: m.nameOf(ctx, who), Why: reason})
	m.noteStep(ctx, who, "explain", err, "mismatch", id, "reason", reason)
	return err
}

// accountsOf returns the accounts of users by name; nil for nil. It fails with BadRequest for an
// unknown name.
func (m moveSteps) accountsOf(ctx context.Context, names *[]string) ([]drive.AccountID, error) {
	if names == nil {
		return nil, nil
	}
	accounts := []drive.AccountID{}
	for _, name := range *names {
		u, err := m.users.FindByName(ctx, m.db, name)
		if drive.IsKind(err, drive.NotFound) {
			return nil, drive.BadField("users", drive.Malformed, "expected", "names of users", "sent", name)
		}
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, u.Account)
	}
	return accounts, nil
}

// step executes a step. named are the accounts of the step's users. It fails with WrongState if the
// migration does not allow the step.
func (m *mover) step(ctx context.Context, step rest.MigrationStep, in rest.MigrationBody, named []drive.AccountID) (err error) {
	rows, copier := m.rows, m.copier
	if err := rows.EnsureLoaded(ctx); err != nil { // another instance may have started a migration
		return err
	}
	switch step {
	case rest.MigrationVerify:
		contentsAlone := rows.State().Contents != "" && rows.Target() == ""
		if err = copier.Verify(ctx, in.Percent); err == nil && !contentsAlone {
			err = rows.Verify(ctx)
		}
	case rest.MigrationAdvance:
		_, err = rows.Advance(ctx, requestedPhase(in))
	case rest.MigrationPercent:
		err = rows.Percent(ctx, in.Percent, named)
	case rest.MigrationPause, rest.MigrationResume:
		err = rows.Pause(ctx, step == rest.MigrationPause)
	case rest.MigrationRollback:
		err = m.rollBack(ctx, in)
	case rest.MigrationFinish:
		err = rows.Finish(ctx)
	case rest.MigrationDrop:
		if err = rows.DeleteBookkeeping(ctx, in.Early); err == nil {
			err = copier.StopCapture(ctx)
		}
	case rest.MigrationRate:
		err = rows.SetPace(ctx, migrate.PaceChange{Rows: in.Rows, Bytes: in.Bytes})
	case rest.MigrationDropOld:
		err = rows.DropOld(ctx, in.Early, in.Percent)
	default:
		err = drive.BadField("step", drive.NotAllowed, "sent", string(step))
	}
	return err
}

// requestedPhase returns the phase in which the client decided on a step, or migrate.AnyPhase.
func requestedPhase(in rest.MigrationBody) migrate.Phase {
	if in.Phase == nil {
		return migrate.AnyPhase
	}
	return migrate.Phase(*in.Phase)
}

// rollBack returns to the phase before. It gives the migration up only if the new store has no
// contents that the old one lacks. It does nothing in a phase other than the requested one. It
// fails with drive.WrongState where the phase cannot be left.
func (m *mover) rollBack(ctx context.Context, in rest.MigrationBody) error {
	rows, copier := m.rows, m.copier
	from := rows.State().Phase
	if in.Phase != nil {
		from = requestedPhase(in)
	}
	last := from <= migrate.Fill
	if last {
		gates, err := copier.GateBack(ctx)
		if err != nil {
			return err
		}
		if !allOpen(gates) {
			return drive.Wrap(&migrate.Refusal{Step: "giving the migration up", Gates: gates}, drive.WrongState)
		}
	}
	_, err := rows.Rollback(ctx, from)
	if err == nil && last && rows.State().ID == "" {
		err = copier.StopCapture(ctx)
	}
	return err
}

// Mismatches returns up to limit recorded mismatches; nil for none.
func (m moveSteps) Mismatches(ctx context.Context, limit int) ([]migrate.Mismatch, error) {
	return m.rows.Mismatches(ctx, limit)
}

// preflight checks what package migrate cannot know: whether the result can be started, and the new
// store of contents. A dry run changes nothing; otherwise a directory is created. A failed check is
// a closed gate, not an error.
func (m *mover) preflight(ctx context.Context, req migrate.Request) ([]migrate.Gate, error) {
	gates := []migrate.Gate{m.checkMode(req)}
	if req.ToDB != "" && !strings.Contains(req.ToDB, "://") || req.ToBlobs != "" && !strings.HasPrefix(req.ToBlobs, "s3:") {
		g, err := m.checkAlone(ctx)
		if err != nil {
			return nil, err
		}
		gates = append(gates, g)
	}
	if req.ToBlobs == "" || !allOpen(gates) {
		return gates, nil
	}
	to, err := config.ParseBlobLocation(req.ToBlobs, os.Environ())
	if err != nil {
		return append(gates, closed("new contents", err.Error())), nil
	}
	look := m.checkContents
	if req.DryRun {
		look = m.inspectContents
	}
	g, err := look(ctx, to)
	return append(gates, g), err
}

// closed returns a gate, called name, that keeps a migration from starting; why is shown to the
// administrator.
func closed(name, why string) migrate.Gate { return migrate.Gate{Name: name, Detail: why} }

// checkMode returns a closed gate if the installation could not start with the settings after the
// migration, or if the target is where the contents are already. It opens nothing.
func (m *mover) checkMode(req migrate.Request) migrate.Gate {
	end := m.cfg
	if req.ToDB != "" {
		end.MySQL = nil
		if strings.Contains(req.ToDB, "://") {
			server, err := config.ParseMySQL(req.ToDB)
			if err != nil {
				return closed("mode", "the new database: "+err.Error())
			}
			end.MySQL = server
		}
	}
	if req.ToBlobs != "" {
		to, err := config.ParseBlobLocation(req.ToBlobs, os.Environ())
		if err != nil {
			return closed("mode", "the new contents: "+err.Error())
		}
		end.S3, end.Redis = to.S3, to.Redis
		if to.Same(contentsLocation(m.cfg)) {
			return closed("mode", "contents are there already")
		}
		if to.SharesRedis(contentsLocation(m.cfg)) {
			return closed("mode", "the journals of two buckets cannot share a database of Redis: name another one, such as .../1")
		}
	}
	mode, err := end.CheckMode()
	if err != nil {
		return closed("mode", err.Error())
	}
	return migrate.Gate{Name: "mode", OK: true, Detail: fmt.Sprintf("from %s to %s", m.cfg.Mode(), mode)}
}

// checkAlone returns a closed gate if other instances run, which could not reach a directory of
// this machine. It fails if the instances cannot be listed.
func (m *mover) checkAlone(ctx context.Context) (migrate.Gate, error) {
	g := migrate.Gate{Name: "one instance"}
	alive, err := m.member.Alive(ctx)
	if err != nil {
		return g, err
	}
	g.OK, g.Detail = len(alive) <= 1, "only this instance runs; do not start another one"
	if !g.OK {
		g.Detail = fmt.Sprintf("%d instances run, and only one can use a directory: stop the others", len(alive))
	}
	return g, nil
}

// checkContents opens the new store and checks its owner and free space. It closes the store again.
// A failed check is a closed gate and no error.
func (m *mover) checkContents(ctx context.Context, to config.BlobLocation) (g migrate.Gate, err error) {
	const name = "new contents"
	p, err := m.openContents(ctx, to)
	if err != nil {
		return closed(name, err.Error()), nil
	}
	defer func() {
		if closeErr := p.close(); err == nil {
			err = closeErr
		}
	}()
	if err := p.check(ctx); err != nil {
		return closed(name, err.Error()), nil
	}
	if why, err := m.refuseForeign(ctx, p); err != nil || why != "" {
		return closed(name, why), err
	}
	var sum drive.ByteSize
	if err := m.db.QueryRow(ctx, "SELECT COALESCE(SUM(size), 0) FROM blobs").Scan(&sum); err != nil {
		return g, fmt.Errorf("sum up what is stored: %w", err)
	}
	if p.side.Store.Caps().ReportsFree {
		free, err := p.side.Store.Free(ctx)
		if err != nil {
			return g, err
		}
		if need := sum + atLeastOne(m.cfg.MinFree); free < need {
			return closed(name, fmt.Sprintf("%d bytes are free there, and %d are needed", free, need)), nil
		}
	}
	return migrate.Gate{Name: name, OK: true, Detail: fmt.Sprintf("%s is empty; %d bytes are to be copied", p.side.Name, sum)}, nil
}

// inspectContents checks the new store's owner and free space for a dry run. It does not write, so
// write access is only tested at the start of the migration. A failed check is a closed gate and no
// error.
func (m *mover) inspectContents(ctx context.Context, to config.BlobLocation) (g migrate.Gate, err error) {
	const name = "new contents"
	p := location{side: contents.Side{Name: showContents(to)}, marks: directoryMarks(to.Dir), close: func() error { return nil }}
	if to.S3 != nil {
		if p, err = m.openSecondBucket(to); err != nil {
			return closed(name, err.Error()), nil
		}
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if why, err := m.refuseForeign(ctx, p); err != nil || why != "" {
		if err != nil {
			why = err.Error()
		}
		return closed(name, why), nil
	}
	var sum drive.ByteSize
	if err := m.db.QueryRow(ctx, "SELECT COALESCE(SUM(size), 0) FROM blobs").Scan(&sum); err != nil {
		return g, fmt.Errorf("sum up what is stored: %w", err)
	}
	return migrate.Gate{Name: name, OK: true, Detail: fmt.Sprintf("%s is empty; %d bytes are to be copied; whether it can be written is tried when it begins", p.side.Name, sum)}, nil
}

// refuseForeign returns why a location cannot be the new store; "" if it can. A store that an
// earlier attempt of this installation has filled is allowed. It fails if the location cannot be
// read.
func (m *mover) refuseForeign(ctx context.Context, p location) (string, error) {
	mark, found, err := p.marks.ReadMark(ctx)
	switch {
	case err != nil:
		return "", err
	case found && mark.ID != m.ID:
		return "it holds the blobs of installation " + mark.ID, nil
	case found:
		return "", nil
	}
	occupied, err := p.marks.Occupied(ctx)
	if occupied {
		return "it holds blobs without a mark", err
	}
	return "", err
}
