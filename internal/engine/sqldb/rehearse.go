package sqldb

import (
	"context"
	"errors"
)

// errRehearsed rolls back a successful rehearsal.
var errRehearsed = errors.New("this was the rehearsal")

// rehearse runs fn once and rolls back, for Options.RunTwice. It returns the error of fn, but no
// conflict.
func (p *pool) rehearse(ctx context.Context, fn func(context.Context, *Tx) error) error {
	_, err := p.runOnce(ctx, func(ctx context.Context, tx *Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return errRehearsed
	})
	if errors.Is(err, errRehearsed) || isConflict(err) {
		return nil
	}
	return err
}
