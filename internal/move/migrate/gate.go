package migrate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// evidenceLife is how long a full comparison is valid.
const evidenceLife = 24 * time.Hour

// gatekeeper checks the conditions, called gates, of a step.
type gatekeeper struct {
	*matcher
	party *Party // set by SetParty
}

// gates returns the conditions for entering phase to, open and closed ones. If real is true, the
// step follows: it first applies the changes that are pending now. Otherwise it only reads. The
// error reports a check that failed, not a closed gate.
func (k *gatekeeper) gates(ctx context.Context, v *snapshot, to Phase, real bool) (all []Gate, err error) {
	add := func(g Gate, e error) {
		if e != nil && err == nil {
			err = e
		}
		all = append(all, g)
	}
	if to >= DualWrite {
		add(k.checkInstances(ctx, v, ready))
	}
	if v.Peer != "" && to >= DualWrite {
		add(k.checkTarget(ctx, v), nil)
		add(k.checkLoss(ctx, v))
		add(k.checkFilled(ctx, v))
		add(k.checkLag(ctx, v, real))
	}
	if v.Peer != "" && to >= ReadNew {
		add(k.checkEvidence(ctx, v))
		add(k.checkMismatches(ctx, v))
	}
	if k.party.Contents != nil && v.Contents != "" && to <= NewOnly {
		more, e := k.party.Contents.Gate(ctx, to)
		all = append(all, more...)
		if err == nil {
			err = e
		}
	}
	return all, err
}

// gatesBack returns the conditions for going back one phase, open and closed ones; none in phase 0.
// The error reports a failed check, not a closed gate.
func (k *gatekeeper) gatesBack(ctx context.Context, v *snapshot) ([]Gate, error) {
	if v.Phase == Freeze {
		return nil, nil
	}
	g, err := k.checkInstances(ctx, v, heard)
	gates := []Gate{g}
	if err != nil || v.Phase != WriteNew || v.Peer == "" {
		return gates, err
	}
	// The other side becomes the primary, as on the way forward, so the same evidence is required.
	gates = append(gates, k.checkTarget(ctx, v))
	for _, check := range []func(context.Context, *snapshot) (Gate, error){k.checkLoss, k.checkLagNow, k.checkEvidence, k.checkMismatches} {
		g, err := check(ctx, v)
		if err != nil {
			return gates, err
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// readiness is how far an instance must be with an epoch. Going forward requires that each instance
// can act by the epoch. Going back only requires that no instance acts by an older one: a side that
// cannot be opened may be the reason for going back.
type readiness bool

const (
	heard readiness = false // the instance has read the epoch
	ready readiness = true  // the instance has also acknowledged it, and so acts by it
)

// checkInstances checks that all live instances are as far with the epoch as want (M5), and names
// the others.
func (k *gatekeeper) checkInstances(ctx context.Context, v *snapshot, want readiness) (Gate, error) {
	all, err := k.instances(ctx, v)
	if err != nil {
		return Gate{Name: "instances"}, err
	}
	var behind []string
	for _, in := range all {
		switch {
		case in.Heard < v.Epoch:
			behind = append(behind, in.name()+" has not heard of it")
		case want == ready && in.Epoch < v.Epoch:
			behind = append(behind, in.name()+" cannot: "+in.Why)
		}
	}
	g := Gate{Name: "instances", OK: len(behind) == 0 && len(all) > 0}
	g.Detail = fmt.Sprintf("%d of %d instances act by epoch %d", len(all)-len(behind), len(all), v.Epoch)
	if want == heard {
		g.Detail = fmt.Sprintf("%d of %d instances have heard of epoch %d", len(all)-len(behind), len(all), v.Epoch)
	}
	if len(behind) > maxNamed {
		behind = append(behind[:maxNamed], "...")
	}
	if len(behind) > 0 {
		g.Detail += "; " + strings.Join(behind, "; ")
	}
	return g, nil
}

// maxNamed is the largest number of instances or explanations that a gate lists.
const maxNamed = 5

// name returns the text by which a gate names the instance.
func (in Instance) name() string {
	if in.Host == "" {
		return fmt.Sprintf("start %d", in.ID)
	}
	return fmt.Sprintf("start %d on %s", in.ID, in.Host)
}

// instances returns the live instances with the epochs that they acknowledged and heard of, 0 if
// none, and why they have not acknowledged one. It fails if the members or the bookkeeping cannot
// be read.
func (k *gatekeeper) instances(ctx context.Context, v *snapshot) ([]Instance, error) {
	alive, err := k.party.Member.Alive(ctx)
	if err != nil {
		return nil, err
	}
	type told struct {
		instance, epoch int64
		why             string
		at              drive.Time
	}
	scan := func(h *told, scan func(...any) error) error { return scan(&h.instance, &h.epoch, &h.why, &h.at) }
	rows, err := v.primary.DB.Query(ctx, "SELECT instance, epoch, '', seen_at FROM migration_acks")
	acks, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("read who has acknowledged the epoch: %w", err)
	}
	rows, err = v.primary.DB.Query(ctx, "SELECT instance, epoch, why, seen_at FROM migration_waits")
	waits, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("read who waits: %w", err)
	}
	acked, waiting := map[int64]told{}, map[int64]told{}
	for _, h := range acks {
		acked[h.instance] = h
	}
	for _, h := range waits {
		waiting[h.instance] = h
	}
	var all []Instance
	for _, in := range alive {
		a, w := acked[in.Generation], waiting[in.Generation]
		all = append(all, Instance{
			ID: in.Generation, Host: in.Host, Epoch: a.epoch, Heard: max(a.epoch, w.epoch), Why: w.why, SeenAt: max(a.at, w.at),
		})
	}
	return all, nil
}

// checkTarget checks that the other side is still the one that was filled: its row, its marker, the
// triggers of both sides, and that no table is empty there that is not empty here. This detects a
// database that was created again under the same name.
func (k *gatekeeper) checkTarget(ctx context.Context, v *snapshot) Gate {
	bad := func(why string) Gate { return Gate{Name: "target", Detail: why} }
	if v.other == nil {
		return bad("the other side cannot be reached, or is not the one that was filled")
	}
	if v.otherRecord.Migration != v.Migration || v.otherRecord.Marker != v.Marker || v.otherRecord.Role != secondary {
		return bad("the other side is not the one that was filled")
	}
	for _, s := range []*Side{v.primary, v.other} {
		n, err := countTriggers(ctx, s.DB)
		if err != nil {
			return bad(err.Error())
		}
		if n != len(events)*len(k.tablesFor(v.primary)) {
			return bad(fmt.Sprintf("a side has %d of %d triggers", n, len(events)*len(k.tablesFor(v.primary))))
		}
	}
	for _, t := range k.tablesFor(v.primary) {
		empty, err := k.isEmptied(ctx, v, t)
		if err != nil {
			return bad(err.Error())
		}
		if empty {
			return bad("table " + t.name + " is empty on the other side")
		}
	}
	return Gate{Name: "target", OK: true, Detail: "the other side is the one that was filled"}
}

// isEmptied reports whether a table that was filled in has rows on the primary and none on the
// secondary, though no change is pending: rows were lost there. While the table is still being
// filled in it returns false.
func (k *gatekeeper) isEmptied(ctx context.Context, v *snapshot, t *table) (bool, error) {
	const any = "SELECT EXISTS (SELECT 1 FROM %s)"
	var here, there bool
	if err := v.primary.DB.QueryRow(ctx, fmt.Sprintf(any, quote(t.name))).Scan(&here); err != nil || !here {
		return false, err
	}
	if err := v.other.DB.QueryRow(ctx, fmt.Sprintf(any, quote(t.name))).Scan(&there); err != nil || there {
		return false, err
	}
	var pending bool // its first row may be new
	err := v.primary.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM migration_changes WHERE tbl = ?)", t.name).Scan(&pending)
	if err != nil || pending {
		return false, err
	}
	if v.Phase <= Fill {
		points, err := savePoints(ctx, v.other.DB, "fill")
		if err != nil || !points[t.name].ended {
			return false, err
		}
	}
	err = v.other.DB.QueryRow(ctx, fmt.Sprintf(any, quote(t.name))).Scan(&there)
	return !there, err
}

// checkFilled returns the gate "fill", which is open if all rows are filled in, and in phase 4 and
// later. It is closed if the other side cannot be reached; the error reports a failed query.
func (k *gatekeeper) checkFilled(ctx context.Context, v *snapshot) (Gate, error) {
	if v.Phase >= WriteNew {
		return Gate{Name: "fill", OK: true, Detail: "all rows were filled in"}, nil
	}
	if v.other == nil {
		return Gate{Name: "fill", Detail: "the other side cannot be reached"}, nil
	}
	p, err := k.rowsProgress(ctx, v)
	if err != nil {
		return Gate{Name: "fill"}, err
	}
	done, err := k.filled(ctx, v)
	return Gate{Name: "fill", OK: done, Detail: fmt.Sprintf("%d of about %d rows are filled in", p.Done, p.Total)}, err
}

// checkLag returns the gate "lag". If real is true, it applies the pending changes, and the gate is
// open if all changes committed before the call are applied. Otherwise up to applyBatch pending
// changes are accepted. The error reports a failed query.
func (k *gatekeeper) checkLag(ctx context.Context, v *snapshot, real bool) (Gate, error) {
	var last int64
	err := v.primary.DB.QueryRow(ctx, "SELECT COALESCE(MAX(seq), 0) FROM migration_changes").Scan(&last)
	if err != nil {
		return Gate{Name: "lag"}, err
	}
	if real {
		if why := k.applyNow(ctx); why != "" {
			return Gate{Name: "lag", Detail: "changes cannot be applied: " + why}, nil
		}
	}
	var left int64
	if err = v.primary.DB.QueryRow(ctx, "SELECT COUNT(*) FROM migration_changes WHERE seq <= ?", last).Scan(&left); err != nil {
		return Gate{Name: "lag"}, err
	}
	ok := left == 0 || !real && left <= applyBatch
	return Gate{Name: "lag", OK: ok, Detail: fmt.Sprintf("%d changes are not applied yet", left)}, nil
}

// checkLagNow measures the lag for a step, where checkLag may show a recent value: it checks that
// all changes committed before the call are applied.
func (k *gatekeeper) checkLagNow(ctx context.Context, v *snapshot) (Gate, error) {
	return k.checkLag(ctx, v, true)
}

// applyNow applies the pending changes and returns why that failed; empty: it succeeded.
func (k *gatekeeper) applyNow(ctx context.Context) string {
	for range 2 { // the second pass begins after the changes of the first are deleted from the list
		if err := k.apply.applyPending(ctx); err != nil {
			return err.Error()
		}
	}
	return ""
}

// checkEvidence checks for a full comparison of these sides in this direction that found no
// difference and is not older than evidenceLife.
func (k *gatekeeper) checkEvidence(ctx context.Context, v *snapshot) (Gate, error) {
	bad := func(why string) (Gate, error) { return Gate{Name: "checksum", Detail: why}, nil }
	c, err := k.lastChecksum(ctx, v)
	if err != nil {
		return Gate{Name: "checksum"}, err
	}
	now, err := v.primary.DB.Now(ctx)
	if err != nil {
		return Gate{Name: "checksum"}, err
	}
	switch {
	case c.id == "":
		return bad("both sides were never compared in this direction")
	case c.state != "done":
		return bad("the comparison is under way")
	case c.marker != v.Marker || c.term != v.Term:
		return bad("the comparison is of another pair of sides, or of the other direction")
	case c.unequal > 0:
		return bad(fmt.Sprintf("%d rows were unequal", c.unequal))
	case now.Sub(c.ended).Abs() > evidenceLife: // Abs: after a clock was set back, the comparison may lie in the future
		return bad(fmt.Sprintf("the comparison is %s old", now.Sub(c.ended).Round(time.Minute)))
	}
	return Gate{Name: "checksum", OK: true, Detail: fmt.Sprintf("%d rows were equal %s ago", c.rows, now.Sub(c.ended).Round(time.Second))}, nil
}

// checkMismatches returns the gate "mismatches", which is open if each mismatch is explained. Its
// text has the latest explanations that people gave.
func (k *gatekeeper) checkMismatches(ctx context.Context, v *snapshot) (Gate, error) {
	n, err := k.countMismatches(ctx, v)
	if err != nil {
		return Gate{Name: "mismatches"}, err
	}
	g := Gate{Name: "mismatches", OK: n == 0, Detail: fmt.Sprintf("%d are not explained", n)}
	told, err := k.explanations(ctx, v)
	if len(told) > 0 {
		g.Detail += "; by people: " + strings.Join(told, "; ")
	}
	return g, err
}
