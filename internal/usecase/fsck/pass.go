package fsck

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// pass is one walk through all checks.
type pass struct {
	*Checker
	scope      Scope
	background bool
	keep       bool           // a backup was restored: nothing is deleted, whatever the rows say
	born       drive.UploadID // uploads whose begin may still be on its way have greater ids
	report     Report
	suspicions []look
	unnoted    unnoted
	resumed    time.Time // when it last began to work after a rest

	// Where it is; see resume.go.

	step   string                                        // that runs, or with which it goes on; empty: the first
	after  string                                        // key in that step after which it goes on; empty: at its beginning
	saved  time.Time                                     // when the save point was written
	settle func(ctx context.Context, after string) error // brings what goes beside the rows to the same place; nil: nothing does
}

// defect is a finding with the way to repair it; neither way: it can only be reported.
type defect struct {
	Finding
	// fix acts on files or timers. It may be repeated.
	fix func(ctx context.Context) error
	// fixTx acts on rows. It looks again within the transaction and reports whether the defect is
	// still there; it says in f what it found then and whether that is repaired.
	fixTx func(ctx context.Context, tx *sqldb.Tx, f *Finding) (still bool, err error)
	// marks says that fixTx repairs nothing and only marks the row as damaged: it belongs to the
	// record of the finding, and is run without Repair, too.
	marks bool
	// leftover says that a process which died has left it behind, so many bytes, and that fix
	// deletes it: no finding unless fix fails.
	leftover bool
	bytes    drive.ByteSize
	file     string // name of the content that it is; empty: it is something else
}

// look finds a defect, or nil when all is well. It can be repeated and reads everything again.
type look func(ctx context.Context) (*defect, error)

// step is one of the checks. Its name is part of the save point.
type step struct {
	name string
	run  func(ctx context.Context) error
}

// steps are the checks in their order: first what the database alone tells, then uploads, whose
// timers must be there, then contents, which take the longest.
func (p *pass) steps() []step {
	var all []step
	for i, b := range balances {
		all = append(all, step{b.column, func(ctx context.Context) error { return p.checkLedgers(ctx, i) }})
	}
	all = append(all,
		step{"owed", p.checkOwed}, step{"holds", p.checkHolds}, step{"links", p.checkLinks}, step{"grants", p.checkGrants}, step{"locks", marks{p}.checkLocks}, step{"properties", marks{p}.checkProperties}, step{"numbers", marks{p}.checkNumbers}, step{"activity", p.checkActivity}, step{"notices", toldTo{p}.checkNotices}, step{"wishes", toldTo{p}.checkWishes}, step{"refs", p.checkRefs},
		step{"versions", p.checkVersions}, step{"trees", p.checkTrees}, step{"old versions", p.checkOldVersions}, step{"nodes", p.checkNodes}, step{"folder sums", p.checkFolderSums},
		step{"bundles", p.checkBundles}, step{"documents", p.checkDocuments}, step{"conflicts", p.checkConflicts},
		step{"open", p.checkOpen}, step{"open again", p.lookAgain}, step{"staged", p.checkStaged},
		step{"contents", p.checkContents}, step{"contents again", p.lookAgain})
	if p.scope.Deep {
		all = append(all, step{"deep", p.checkDeep}, step{"deep again", p.lookAgain})
	}
	if p.background && p.opt.Scrub > 0 {
		all = append(all, step{"scrub", p.scrub}, step{"scrub again", p.lookAgain})
	}
	return append(all, step{"quarantine", p.countQuarantine})
}

func (p *pass) run(ctx context.Context) error {
	for _, s := range p.steps() {
		if p.step != "" && p.step != s.name { // done before this pass was taken up
			continue
		}
		p.step = s.name
		if err := p.home(ctx); err != nil {
			return err
		}
		if p.after == "" {
			if err := p.reached(ctx, ""); err != nil {
				return err
			}
		}
		if err := s.run(ctx); err != nil {
			return err
		}
		p.step, p.after = "", ""
	}
	return nil
}

// maxSuspicions bounds the memory of a pass; when there are more they are looked at again early.
const maxSuspicions = 10_000

// suspect looks, and keeps for another look what seems to be a defect.
func (p *pass) suspect(ctx context.Context, see look) error {
	if err := p.rest(ctx); err != nil {
		return err
	}
	d, err := see(ctx)
	if err != nil || d == nil {
		return err
	}
	p.suspicions = append(p.suspicions, see)
	if len(p.suspicions) >= maxSuspicions {
		return p.lookAgain(ctx)
	}
	return nil
}

// lookAgain settles all suspicions.
func (p *pass) lookAgain(ctx context.Context) error {
	if len(p.suspicions) == 0 {
		return nil
	}
	if err := p.opt.Sleep(ctx, p.opt.Settle); err != nil {
		return err
	}
	var left []*defect
	for _, see := range p.suspicions {
		if err := p.rest(ctx); err != nil {
			return err
		}
		d, err := see(ctx)
		switch {
		case err != nil:
			return err
		case d == nil:
		case d.leftover && d.file != "":
			left = append(left, d)
		default:
			err = p.found(ctx, *d)
		}
		if err == nil && len(left) == maxLookup {
			err = leftovers{p}.takeAll(ctx, left)
			left = nil
		}
		if err != nil {
			return err
		}
	}
	p.suspicions = nil
	return leftovers{p}.takeAll(ctx, left)
}

// stint is how long a pass in the background works before it rests.
const stint = 50 * time.Millisecond

// rest keeps a pass in the background within its share of the time, and lets it step aside.
func (p *pass) rest(ctx context.Context) error {
	if err := ctx.Err(); err != nil || !p.background {
		return err
	}
	if p.waiting.Load() > 0 {
		return errAside
	}
	worked := time.Since(p.resumed)
	if worked < stint {
		return nil
	}
	err := p.opt.Sleep(ctx, time.Duration(float64(worked)*(1/p.opt.Share-1)))
	p.resumed = time.Now()
	return err
}

// pageSize is how many rows one statement returns.
const pageSize = 500

// each calls fn for every row that query returns page by page, going on where the pass was before.
// The query ends in "... > ? ORDER BY ... LIMIT ?", and key gives what the next page begins after.
// A step calls it once.
func each[T any](ctx context.Context, p *pass, query string, limit int, scan func(*T, func(...any) error) error, key func(T) any, fn func(T) error) error {
	var after any = p.after
	for {
		rows, err := p.DB.Query(ctx, query, after, limit)
		page, err := sqldb.Scan(rows, err, scan)
		if err != nil {
			return err
		}
		for _, row := range page {
			after = key(row)
			if err := fn(row); err != nil {
				return err
			}
		}
		if len(page) > 0 {
			if err := p.reached(ctx, fmt.Sprint(after)); err != nil {
				return err
			}
		}
		if err := p.rest(ctx); err != nil || len(page) < limit {
			return err
		}
	}
}
