package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// guessedRate is rows a second, for the guess of a preflight: what two busy cores do.
const guessedRate = 5000

// inspector looks at what a move would meet, before it begins.
type inspector struct {
	*both
	party *Party
}

// preflight looks at both sides. A dry run changes nothing at all; else the other side gets its
// schema, if it is empty.
func (p *inspector) preflight(ctx context.Context, req Request) (Report, error) {
	r := Report{Checks: []Gate{}}
	if req.ToDB != "" {
		look := p.preflightRows
		if req.DryRun {
			look = p.lookAtRows
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

// check adds what was found out to a report.
func (r *Report) check(name, good string, err error) bool {
	g := Gate{Name: name, OK: err == nil, Detail: good}
	if err != nil {
		g.Detail = err.Error()
	}
	r.Checks = append(r.Checks, g)
	return g.OK
}

func (p *inspector) preflightRows(ctx context.Context, to string, r *Report) error {
	check := r.check
	if to == p.opt.Here {
		check("other database", "", wrong("it is the one that is in use"))
		return nil
	}
	away, err := p.sideAway(ctx, to, true)
	if !check("other database", "it can be opened, and its schema is up to date", err) {
		return nil
	}
	if !check("schema", "both sides have the same tables and columns", p.sameSchema(ctx, away)) {
		return nil
	}
	check("empty", "the other side is empty", p.isEmpty(ctx, away))
	check("triggers", "the users of both sides may make triggers", joined(mayArm(ctx, p.home), mayArm(ctx, *away)))
	check("values", "every value fits", p.fits(ctx, away))
	r.guess(ctx, p.home.DB, p.shapes(&p.home))
	return nil
}

// guess adds what there is to bring, and how long that takes.
func (r *Report) guess(ctx context.Context, db *sqldb.DB, tables []*table) {
	for _, t := range tables {
		r.Rows += Count(ctx, db, t.name)
		r.Tables++
	}
	r.Seconds = r.Rows/guessedRate + 1
}

// lookAtRows is preflightRows for a dry run. It opens the other database so that nothing can be
// written. What only a trial shows, such as the right to make triggers, is tried when it begins.
func (p *inspector) lookAtRows(ctx context.Context, to string, r *Report) error {
	tables, err := schemaOf(ctx, p.home.DB)
	if err != nil {
		return err
	}
	if to == p.opt.Here {
		r.check("other database", "", wrong("it is the one that is in use"))
		return nil
	}
	db, err := p.opt.Open(ctx, to, Opening{Look: true})
	if errors.Is(err, fs.ErrNotExist) {
		r.check("other database", "it is not there yet, and will be made", nil)
		r.guess(ctx, p.home.DB, tables)
		return nil
	}
	if err != nil {
		r.check("other database", "", err)
		return nil
	}
	err = p.lookAt(ctx, &Side{DB: db, Unchecked: db}, r)
	r.guess(ctx, p.home.DB, tables)
	return errors.Join(err, db.Close())
}

func (p *inspector) lookAt(ctx context.Context, away *Side, r *Report) error {
	n, err := away.DB.TableCount(ctx)
	if !r.check("other database", "it can be opened", err) {
		return nil
	}
	if n == 0 {
		r.check("empty", "the other side is empty, and gets its tables when it begins", nil)
		return nil
	}
	defer p.unlearn(away)
	if r.check("schema", "both sides have the same tables and columns", p.sameSchema(ctx, away)) {
		r.check("empty", "the other side is empty", p.isEmpty(ctx, away))
		r.check("values", "every value fits", p.fits(ctx, away))
	}
	return nil
}

// unlearn forgets the schema of a side that was looked at.
func (p *inspector) unlearn(s *Side) {
	p.shape.Lock()
	defer p.shape.Unlock()
	delete(p.shaped, s)
}

func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sameSchema compares the numbers of the schemas, and then what is really there.
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
		return wrong(fmt.Sprintf("this side has format %d, the other %d", here, there))
	}
	return p.learn(ctx, &p.home, away)
}

// isEmpty refuses a side with rows: of this installation, of another, or of a migration.
func (p *inspector) isEmpty(ctx context.Context, away *Side) error {
	have, err := readRecord(ctx, away.DB, "")
	if err != nil {
		return err
	}
	if have.Role != nobody {
		return wrong("it belongs to migration " + have.Migration + ", or is the database in use itself")
	}
	installation, err := meta.Find(ctx, away.DB, "installation")
	if err != nil {
		return err
	}
	if installation != "" {
		return wrong("it holds the rows of installation " + installation)
	}
	for _, t := range p.shapes(away) {
		var any bool
		if err := away.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM "+quote(t.name)+")").Scan(&any); err != nil {
			return err
		}
		if any {
			return wrong("table " + t.name + " has rows")
		}
	}
	return nil
}

// fits looks for text that is longer than the other side's columns take.
func (p *inspector) fits(ctx context.Context, away *Side) error {
	if p.home.DB.Dialect() != sqldb.SQLite || away.DB.Dialect() == sqldb.SQLite {
		return nil
	}
	here, there := p.shapes(&p.home), p.shapes(away)
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
			return wrong(fmt.Sprintf("the row %s of %s has a value that is too long for the other side", here[i].keyOf(rows[0]), t.name))
		}
	}
	return nil
}
