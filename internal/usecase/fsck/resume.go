package fsck

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// A pass in the background works 5 % of the time, so over millions of contents it takes longer than
// processes live. Where it is stands in the database, and whoever audits next goes on from there:
// this process, one that has started since, or another instance.
//
//	dies ...                       and then
//	between two save points        what was looked at since the first of them is looked at again
//	before the suspicions settled  there is no such moment: a save point is written when there are none
//
// It says only where to go on. Two who go on from the same place look at the same things, which
// harms nobody.

// metaPass is the name of the save point in the meta table.
const metaPass = "audit"

// savePoint is where a pass is, and what it has found so far.
type savePoint struct {
	Started  drive.Time `json:"started"`
	Saved    drive.Time `json:"saved"`
	Scope    Scope      `json:"scope"`
	Step     string     `json:"step"`
	After    string     `json:"after"` // key of the last row of the step that is done; empty: none is
	Checked  Checked    `json:"checked"`
	Total    int        `json:"total"`
	Repaired int        `json:"repaired"`
}

// goOn takes up the pass in the background that was not brought to its end, if it had the same
// scope and has stood still for less than the pause between two passes: one that fails at the same
// place each time must not keep the checks before it from being made.
func (p *pass) goOn(ctx context.Context) error {
	text, err := meta.Find(ctx, p.DB, metaPass)
	if err != nil {
		return fmt.Errorf("read where the last pass was: %w", err)
	}
	if text == "" {
		return nil
	}
	var at savePoint
	if err := json.Unmarshal([]byte(text), &at); err != nil || at.Scope != p.scope || !p.has(at.Step) {
		return nil //nolint:nilerr // of another release: the pass begins at its beginning
	}
	if p.now().Sub(at.Saved).Abs() >= p.opt.Every {
		return nil
	}
	p.step, p.after = at.Step, at.After
	p.report.Started, p.report.Checked, p.report.Total, p.report.Repaired = at.Started, at.Checked, at.Total, at.Repaired
	p.opt.Log.InfoContext(ctx, "the audit goes on", "began", at.Started, "at", at.Step, "after", at.After)
	return nil
}

func (p *pass) has(name string) bool {
	for _, s := range p.steps() {
		if s.name == name {
			return true
		}
	}
	return false
}

// reached is called when all up to a key of the present step was looked at; empty: the step begins.
// It writes the save point when the last one is old enough, after what is suspected was settled.
func (p *pass) reached(ctx context.Context, after string) error {
	if !p.background || time.Since(p.saved) < p.opt.Save {
		return nil
	}
	if p.settle != nil && after != "" {
		if err := p.settle(ctx, after); err != nil {
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
	err := p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Save(ctx, tx, metaPass, at) })
	if err != nil {
		return fmt.Errorf("write where the pass is: %w", err)
	}
	p.saved = time.Now()
	return nil
}

// forgetPlace forgets the save point: the next pass begins at its beginning.
func (p *pass) forgetPlace(ctx context.Context) error {
	return p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Delete(ctx, tx, metaPass) })
}
