package fsck

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// pass is one run of the checks in its scope, with its position and report. One goroutine uses it.
type pass struct {
	*Checker
	scope         Scope
	background    bool           // run by Run: limited in rate, with save points
	deleteNothing bool           // a backup was restored: nothing is deleted
	oldestID      drive.UploadID // uploads that may be beginning have greater ids
	report        Report
	suspicions    []recheck // looks to be repeated
	scrubbed      scrubBatch
	workStart     time.Time // start of work after the last rest

	// The position; see resume.go.

	step       string                                        // current step, or the step to resume; empty: the first
	after      string                                        // key in that step to resume after; empty: its beginning
	saved      time.Time                                     // time of the last save point
	beforeSave func(ctx context.Context, after string) error // before a save point, advances listings to the key after; nil: nothing to do
}

// defect is a finding with its repair. If fix and fixTx are nil, it can only be reported.
type defect struct {
	Finding
	// fix repairs files or timers. It must be idempotent.
	fix func(ctx context.Context) error
	// fixTx repairs rows. It verifies in the transaction that the defect still exists, and stores
	// in f what it found and whether it is repaired.
	fixTx func(ctx context.Context, tx *sqldb.Tx, f *Finding) (still bool, err error)
	// onlyMarks reports that fixTx only marks the row as damaged. This is part of recording the
	// finding and runs without Repair, too.
	onlyMarks bool
	// leftover reports that a crashed process left a file of so many bytes, which fix deletes. It
	// is a finding only if fix fails.
	leftover bool
	bytes    drive.ByteSize
	file     string // name of a leftover content; empty: something else
}

// recheck looks for one possible defect and returns it, or nil if there is none. It reads
// everything anew with each call.
type recheck func(ctx context.Context) (*defect, error)

// step is one check of a pass. Its name is stored in the save point: it must not change.
type step struct {
	name string
	run  func(ctx context.Context) error
}

// steps returns the checks in order: database checks, uploads with their timers, then contents,
// which take longest.
func (p *pass) steps() []step {
	var all []step
	for i, b := range balances {
		all = append(all, step{b.column, func(ctx context.Context) error { return p.checkLedgers(ctx, i) }})
	}
	all = append(all,
		step{"owed", p.checkOwed}, step{"holds", p.checkHolds}, step{"links", p.checkLinks}, step{"grants", p.checkGrants}, step{"locks", nodeMarks{p}.checkLocks}, step{"properties", nodeMarks{p}.checkProperties}, step{"numbers", nodeMarks{p}.checkNumbers}, step{"activity", p.checkActivity}, step{"notices", notifications{p}.checkNotices}, step{"wishes", notifications{p}.checkSettings}, step{"refs", p.checkRefs},
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

// run runs the steps from the current position on, and saves the position before each. It stops at
// the first error, with p.step and p.after where it was.
func (p *pass) run(ctx context.Context) error {
	for _, s := range p.steps() {
		if p.step != "" && p.step != s.name { // done before the pass was resumed
			continue
		}
		p.step = s.name
		if err := p.checkMounted(ctx); err != nil {
			return err
		}
		if p.after == "" {
			if err := p.savePosition(ctx, ""); err != nil {
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

// maxSuspicions limits the memory of a pass. Above it, suspicions are checked early.
const maxSuspicions = 10_000

// suspect runs a look now, and if it returns a defect, keeps the look for lookAgain. Only a defect
// that the second look finds, too, becomes a finding. At maxSuspicions it runs the second looks at
// once.
func (p *pass) suspect(ctx context.Context, see recheck) error {
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

// lookAgain runs the looks of the suspicions again after a delay and records the defects that
// remain, which the scope may repair. It empties the list; without suspicions it does nothing.
func (p *pass) lookAgain(ctx context.Context) error {
	if len(p.suspicions) == 0 {
		return nil
	}
	if err := p.opt.Sleep(ctx, p.opt.RecheckDelay); err != nil {
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
			err = leftovers{p}.deleteAll(ctx, left)
			left = nil
		}
		if err != nil {
			return err
		}
	}
	p.suspicions = nil
	return leftovers{p}.deleteAll(ctx, left)
}

// workSlice is how long a background pass works before it rests.
const workSlice = 50 * time.Millisecond

// rest makes a background pass sleep after each workSlice of work, so that it works for
// Options.Share of the time. It returns errYielded if an administrator waits for a pass, and the
// error of ctx. A pass of an administrator never sleeps.
func (p *pass) rest(ctx context.Context) error {
	if err := ctx.Err(); err != nil || !p.background {
		return err
	}
	if p.waiting.Load() > 0 {
		return errYielded
	}
	worked := time.Since(p.workStart)
	if worked < workSlice {
		return nil
	}
	err := p.opt.Sleep(ctx, time.Duration(float64(worked)*(1/p.opt.Share-1)))
	p.workStart = time.Now()
	return err
}

// pageSize is the number of rows per statement.
const pageSize = 500

// each calls fn for each row of query, page by page, starting after p.after. The query must end in
// "... > ? ORDER BY ... LIMIT ?"; key returns the value after which the next page begins. A step
// calls each once.
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
			if err := p.savePosition(ctx, fmt.Sprint(after)); err != nil {
				return err
			}
		}
		if err := p.rest(ctx); err != nil || len(page) < limit {
			return err
		}
	}
}
