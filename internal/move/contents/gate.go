package contents

import (
	"context"
	"fmt"

	"smartdrive/internal/engine/blob"
	"smartdrive/internal/move/migrate"
)

// Gate implements migrate.Contents. Until everybody writes to the new side the old one has
// everything, and reads find it there, so that only a sweep must have come to its end. Before the
// old side is left, nothing may be there that is not at the new one.
func (c *Copier) Gate(ctx context.Context, to migrate.Phase) ([]migrate.Gate, error) {
	state := c.opt.State()
	if state.Contents == "" || to < migrate.Second {
		return nil, nil
	}
	if _, both := c.opt.Pair.Attached(); !both {
		return []migrate.Gate{notOpened}, nil
	}
	swept, err := c.swept(ctx, state)
	if err != nil || to < migrate.NewOnly {
		return []migrate.Gate{swept}, err
	}
	return c.all(ctx, swept, Second, First)
}

// GateBack lists what must hold before contents are left where they were at first, and only there.
// As long as the new side has never led nothing is there alone. Once it has, only a sweep that
// began when the old side led again proves that everything is back: what was stored before the
// triggers were made on the new primary is in no queue.
func (c *Copier) GateBack(ctx context.Context) ([]migrate.Gate, error) {
	state := c.opt.State()
	if state.Contents == "" || state.Phase == migrate.Freeze || state.Term <= 1 {
		return nil, nil
	}
	if _, both := c.opt.Pair.Attached(); !both {
		return []migrate.Gate{notOpened}, nil
	}
	swept, err := c.swept(ctx, state)
	if err != nil {
		return nil, err
	}
	return c.all(ctx, swept, First, Second)
}

// notOpened is the gate of an instance that cannot tell what is at the new place.
var notOpened = migrate.Gate{Name: "contents", Detail: "this instance has not opened the new place of contents yet"}

// swept is the gate of a sweep that came to its end.
func (c *Copier) swept(ctx context.Context, state migrate.State) (migrate.Gate, error) {
	g := migrate.Gate{Name: "contents"}
	s, err := c.load(ctx)
	switch {
	case err != nil:
		return g, err
	case s.Of != nameOf(state) || !s.Armed:
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

// all is swept, with everything that has come since, and nothing on its way. Uploads are asked for
// first: one that ends after that is in the queue.
func (c *Copier) all(ctx context.Context, swept migrate.Gate, at, leaves Which) ([]migrate.Gate, error) {
	uploads, err := c.staged(ctx, leaves)
	if err != nil {
		return nil, err
	}
	lacks, err := c.behind(ctx, at)
	return []migrate.Gate{swept, waits(lacks, c.opt.Pair.Side(at).Name), uploads}, err
}

func waits(lacks []string, place string) migrate.Gate {
	g := migrate.Gate{Name: "contents-waiting", OK: len(lacks) == 0, Detail: "nothing waits to be copied to " + place}
	if !g.OK {
		g.Detail = fmt.Sprintf("%d contents wait to be copied to %s: %s", len(lacks), place, some(lacks))
	}
	return g
}

// staged is the gate of uploads that have not ended where they must not go on.
func (c *Copier) staged(ctx context.Context, w Which) (migrate.Gate, error) {
	side, n := c.opt.Pair.Side(w), 0
	g := migrate.Gate{Name: "uploads"}
	err := side.Staging.ListStaged(ctx, func(s blob.Stray) error {
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
