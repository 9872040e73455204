package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// assumedRate is the assumed filling rate in rows per second: that of two busy cores.
const assumedRate = 5000

// inspector checks both sides before a migration begins.
type inspector struct {
	*sides
	party *Party
}

// preflight checks both sides and the contents. Only without DryRun, it creates the schema on an
// empty other side.
func (p *inspector) preflight(ctx context.Context, req Request) (Report, error) {
	r := Report{Checks: []Gate{}}
	if req.ToDB != "" {
		look := p.checkRows
		if req.DryRun {
			look = p.checkRowsReadOnly
		}
		if err := look(ctx, req.ToDB, &r); err != nil {
			return r, err
		}
	}
	if p.party.Contents != nil && req.ToBlobs != "" {
		gates, err := p.party.Contents.Gate(ctx, Freeze)
		if err != nil {
			return r, err
		}
		r.Checks = append(r.Checks, gates...)
	}
	r.OK = refuse("", r.Checks) == nil
	return r, nil
}

// add appends the result of the check name to the report: good as the text if err is nil, else err.
// It returns whether the check succeeded.
func (r *Report) add(name, good string, err error) bool {
	g := Gate{Name: name, OK: err == nil, Detail: good}
	if err != nil {
		g.Detail = err.Error()
	}
	r.Checks = append(r.Checks, g)
	return g.OK
}

// checkRows checks the other database, to, and adds the results to r; it creates its schema if it
// is empty. A failed check is a result and no error, so it always returns nil.
func (p *inspector) checkRows(ctx context.Context, to string, r *Report) error {
	check := r.add
	if to == p.opt.Here {
		check("other database", "", wrongState("it is the one that is in use"))
		return nil
	}
	away, err := p.openOther(ctx, to, true)
	if !check("other database", "it can be opened, and its schema is up to date", err) {
		return nil
	}
	if !check("schema", "both sides have the same tables and columns", p.sameSchema(ctx, away)) {
		return nil
	}
	check("empty", "the other side is empty", p.isEmpty(ctx, away))
	check("triggers", "the users of both sides may make triggers", firstError(checkTriggerRight(ctx, p.home), checkTriggerRight(ctx, *away)))
	check("values", "every value fits", p.checkValuesFit(ctx, away))
	r.addEstimate(ctx, p.home.DB, p.tablesFor(&p.home))
	return nil
}

// addEstimate adds to the report the number of rows and tables and the estimated seconds, from
// counts that may be approximate.
func (r *Report) addEstimate(ctx context.Context, db *sqldb.DB, tables []*table) {
	for _, t := range tables {
		r.Rows += Count(ctx, db, t.name)
		r.Tables++
	}
	r.Seconds = r.Rows/assumedRate + 1
}

// checkRowsReadOnly checks the other database for a dry run, opened read-only, and adds the results
// to r. Checks that need a write, such as the right to create triggers, are left to the start.
func (p *inspector) checkRowsReadOnly(ctx context.Context, to string, r *Report) error {
	tables, err := schemaOf(ctx, p.home.DB)
	if err != nil {
		return err
	}
	if to == p.opt.Here {
		r.add("other database", "", wrongState("it is the one that is in use"))
		return nil
	}
	db, err := p.opt.Open(ctx, to, Opening{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		r.add("other database", "it is not there yet, and will be made", nil)
		r.addEstimate(ctx, p.home.DB, tables)
		return nil
	}
	if err != nil {
		r.add("other database", "", err)
		return nil
	}
	err = p.inspectOther(ctx, &Side{DB: db, Unchecked: db}, r)
	r.addEstimate(ctx, p.home.DB, tables)
	return errors.Join(err, db.Close())
}

// inspectOther checks an open side without writing and adds the results to r; a failed check is a
// result and no error, so it always returns nil.
func (p *inspector) inspectOther(ctx context.Context, away *Side, r *Report) error {
	n, err := away.DB.TableCount(ctx)
	if !r.add("other database", "it can be opened", err) {
		return nil
	}
	if n == 0 {
		r.add("empty", "the other side is empty, and gets its tables when it begins", nil)
		return nil
	}
	defer p.forgetSchema(away)
	if r.add("schema", "both sides have the same tables and columns", p.sameSchema(ctx, away)) {
		r.add("empty", "the other side is empty", p.isEmpty(ctx, away))
		r.add("values", "every value fits", p.checkValuesFit(ctx, away))
	}
	return nil
}

// forgetSchema removes the cached schema of a side, so that the next loadSchemas reads it again.
func (p *inspector) forgetSchema(s *Side) {
	p.schemaMu.Lock()
	defer p.schemaMu.Unlock()
	delete(p.tablesBySide, s)
}

// firstError returns the first of errs that is not nil, nil if none is.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sameSchema returns nil if both sides have the same schema version and equal tables, which it then
// caches for both sides. It returns WrongState if the versions differ.
func (p *inspector) sameSchema(ctx context.Context, away *Side) error {
	var here, there int64
	const format = "SELECT MAX(version_id) FROM goose_db_version"
	if err := p.home.DB.QueryRow(ctx, format).Scan(&here); err != nil {
		return err
	}
	if err := away.DB.QueryRow(ctx, format).Scan(&there); err != nil {
		return err
	}
	if here != there {
		return wrongState(fmt.Sprintf("this side has format %d, the other %d", here, there))
	}
	return p.loadSchemas(ctx, &p.home, away)
}

// isEmpty returns nil if the side has no rows of any installation or migration, and WrongState with
// the reason otherwise.
func (p *inspector) isEmpty(ctx context.Context, away *Side) error {
	have, err := readRecord(ctx, away.DB, "")
	if err != nil {
		return err
	}
	if have.Role != noRole {
		return wrongState("it belongs to migration " + have.Migration + ", or is the database in use itself")
	}
	installation, err := meta.Find(ctx, away.DB, "installation")
	if err != nil {
		return err
	}
	if installation != "" {
		return wrongState("it holds the rows of installation " + installation)
	}
	for _, t := range p.tablesFor(away) {
		var any bool
		if err := away.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM "+quote(t.name)+")").Scan(&any); err != nil {
			return err
		}
		if any {
			return wrongState("table " + t.name + " has rows")
		}
	}
	return nil
}

// checkValuesFit returns WrongState if a text of the home side is too long for its column at the
// other. It scans tables, and does nothing unless the move is from SQLite to MySQL.
func (p *inspector) checkValuesFit(ctx context.Context, away *Side) error {
	if p.home.DB.Dialect() != sqldb.SQLite || away.DB.Dialect() == sqldb.SQLite {
		return nil
	}
	here, there := p.tablesFor(&p.home), p.tablesFor(away)
	for i, t := range there {
		var tooLong []string
		for _, c := range t.cols {
			if c.limit > 0 {
				tooLong = append(tooLong, fmt.Sprintf("length(CAST(%s AS BLOB)) > %d", quote(c.name), c.limit))
			}
		}
		if len(tooLong) == 0 {
			continue
		}
		rows, err := here[i].readRows(ctx, p.home.DB, "WHERE "+strings.Join(tooLong, " OR ")+" LIMIT 1")
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			return wrongState(fmt.Sprintf("the row %s of %s has a value that is too long for the other side", here[i].keyOf(rows[0]), t.name))
		}
	}
	return nil
}
