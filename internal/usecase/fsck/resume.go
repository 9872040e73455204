package fsck

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// A background pass works 5 % of the time, so with millions of contents it outlives processes. Its
// position is in the database. The next pass resumes there, in this process, after a restart, or in
// another instance.
//
//	crash ...                      then
//	between two save points        everything since the first of them is checked again
//	with open suspicions           none are lost: a save point is written only when there are none
//
// The position is only a hint. Two passes that resume at the same position do the same checks,
// which is harmless.

// metaPosition is the name of the save point in the meta table.
const metaPosition = "audit"

// savePoint is the position of a background pass and its result so far, stored as JSON; another
// process may resume it.
type savePoint struct {
	Started  drive.Time `json:"started"`
	Saved    drive.Time `json:"saved"`
	Scope    Scope      `json:"scope"`
	Step     string     `json:"step"`
	After    string     `json:"after"` // key of the last checked row of the step; empty: none
	Checked  Checked    `json:"checked"`
	Total    int        `json:"total"`
	Repaired int        `json:"repaired"`
}

// resume continues an unfinished background pass with the same scope from its save point, unless
// that was saved Options.Interval ago or longer: a pass that always fails at the same place must
// not prevent the checks before it. Without a usable save point it changes nothing.
func (p *pass) resume(ctx context.Context) error {
	text, err := meta.Find(ctx, p.DB, metaPosition)
	if err != nil {
		return fmt.Errorf("read where the last pass was: %w", err)
	}
	if text == "" {
		return nil
	}
	var at savePoint
	if err := json.Unmarshal([]byte(text), &at); err != nil || at.Scope != p.scope || !p.hasStep(at.Step) {
		return nil //nolint:nilerr // from another release: start from the beginning
	}
	if p.now().Sub(at.Saved).Abs() >= p.opt.Interval {
		return nil
	}
	p.step, p.after = at.Step, at.After
	p.report.Started, p.report.Checked, p.report.Total, p.report.Repaired = at.Started, at.Checked, at.Total, at.Repaired
	p.opt.Log.InfoContext(ctx, "resuming an interrupted audit", "began", at.Started, "at", at.Step, "after", at.After)
	return nil
}

// hasStep reports whether this release has a step of that name in a pass of this scope; a save
// point may name one that another release had.
func (p *pass) hasStep(name string) bool {
	for _, s := range p.steps() {
		if s.name == name {
			return true
		}
	}
	return false
}

// savePosition is called when the current step has checked all rows up to the key after; empty: the
// step begins. If the last save point is old enough, it checks all suspicions and writes a new one.
func (p *pass) savePosition(ctx context.Context, after string) error {
	if !p.background || time.Since(p.saved) < p.opt.SaveInterval {
		return nil
	}
	if p.beforeSave != nil && after != "" {
		if err := p.beforeSave(ctx, after); err != nil {
			return err
		}
	}
	if err := p.lookAgain(ctx); err != nil {
		return err
	}
	at := savePoint{
		Started: p.report.Started, Saved: p.now(), Scope: p.scope, Step: p.step, After: after, Checked: p.report.Checked,
		Total: p.report.Total, Repaired: p.report.Repaired,
	}
	err := p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Save(ctx, tx, metaPosition, at) })
	if err != nil {
		return fmt.Errorf("write where the pass is: %w", err)
	}
	p.saved = time.Now()
	return nil
}

// clearPosition deletes the save point, so that the next pass starts from the beginning.
func (p *pass) clearPosition(ctx context.Context) error {
	return p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Delete(ctx, tx, metaPosition) })
}
