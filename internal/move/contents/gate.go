package contents

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/move/migrate"
)

// Gate returns the conditions for entering phase to; none below DualWrite or if no contents move.
// Before phase 4 the old side has all contents, so a completed sweep suffices. Before phase 5, the
// new side must have all contents, and no upload may be running at the old one.
func (c *Copier) Gate(ctx context.Context, to migrate.Phase) ([]migrate.Gate, error) {
	state := c.opt.State()
	if state.Contents == "" || to < migrate.DualWrite {
		return nil, nil
	}
	if _, both := c.opt.Pair.Attached(); !both {
		return []migrate.Gate{notOpened}, nil
	}
	swept, err := c.sweepGate(ctx, state)
	if err != nil || to < migrate.NewOnly {
		return []migrate.Gate{swept}, err
	}
	return c.moveGates(ctx, swept, Second, First)
}

// GateBack returns the conditions for using only the old place again. If the new side has never
// led, there are none. Otherwise a sweep must have ended that began after the old side led again:
// contents stored before the triggers were created on the new primary are in no queue.
func (c *Copier) GateBack(ctx context.Context) ([]migrate.Gate, error) {
	state := c.opt.State()
	if state.Contents == "" || state.Phase == migrate.Freeze || state.Term <= 1 {
		return nil, nil
	}
	if _, both := c.opt.Pair.Attached(); !both {
		return []migrate.Gate{notOpened}, nil
	}
	swept, err := c.sweepGate(ctx, state)
	if err != nil {
		return nil, err
	}
	return c.moveGates(ctx, swept, First, Second)
}

// notOpened is the gate of an instance that cannot read the new place.
var notOpened = migrate.Gate{Name: "contents", Detail: "this instance has not opened the new place of contents yet"}

// sweepGate returns the gate "contents", which is open if the sweep of the current term has ended
// without bad contents. It fails if the sweep cannot be read.
func (c *Copier) sweepGate(ctx context.Context, state migrate.State) (migrate.Gate, error) {
	g := migrate.Gate{Name: "contents"}
	s, err := c.loadSweep(ctx)
	switch {
	case err != nil:
		return g, err
	case s.Of != termName(state) || !s.Armed:
		g.Detail = "contents have not been looked through in this direction"
	case s.Ended == 0:
		g.Detail = fmt.Sprintf("%d of %d contents looked through", s.Done, s.Total)
	case s.Bad > 0:
		g.Detail = fmt.Sprintf("%d contents are not what their rows tell of, such as: %s", s.Bad, s.Worst)
	default:
		g.OK, g.Detail = true, fmt.Sprintf("%d contents are at both sides, %d of them copied", s.Done, s.Copied)
	}
	return g, nil
}

// moveGates returns the gate swept and the gates for the queue and for uploads, before only the
// side at is used. leaves is the side that is left. It lists uploads first: an upload that ends
// later is in the queue.
func (c *Copier) moveGates(ctx context.Context, swept migrate.Gate, at, leaves SideIndex) ([]migrate.Gate, error) {
	uploads, err := c.uploadsGate(ctx, leaves)
	if err != nil {
		return nil, err
	}
	lacks, err := c.lackedBy(ctx, at)
	return []migrate.Gate{swept, waitingGate(lacks, c.opt.Pair.Side(at).Name), uploads}, err
}

// waitingGate returns the gate for contents in the queue that a place lacks.
func waitingGate(lacks []string, place string) migrate.Gate {
	g := migrate.Gate{Name: "contents-waiting", OK: len(lacks) == 0, Detail: "nothing waits to be copied to " + place}
	if !g.OK {
		g.Detail = fmt.Sprintf("%d contents wait to be copied to %s: %s", len(lacks), place, firstNames(lacks))
	}
	return g
}

// uploadsGate returns the gate "uploads", which is open if no upload staged at side w is active,
// parked, sealing or joined to another. An error means that the staging or the database could not
// be read.
func (c *Copier) uploadsGate(ctx context.Context, w SideIndex) (migrate.Gate, error) {
	side, n := c.opt.Pair.Side(w), 0
	g := migrate.Gate{Name: "uploads"}
	err := side.Staging.ListStaged(ctx, func(s blob.Entry) error {
		var open bool
		err := c.opt.DB.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM uploads WHERE id = ? AND state IN ('active', 'parked', 'sealing'))
			OR EXISTS (SELECT 1 FROM upload_joins WHERE partial_id = ?)`, s.Name, s.Name).Scan(&open)
		if open {
			n++
		}
		return err
	})
	if err != nil {
		return g, fmt.Errorf("list uploads at %s: %w", side.Name, err)
	}
	g.OK, g.Detail = n == 0, "no upload is going on at "+side.Name
	if n > 0 {
		g.Detail = fmt.Sprintf("%d uploads began at %s and have not ended; they end by themselves, or by \"smartdrive admin uploads reset\"", n, side.Name)
	}
	return g, nil
}
