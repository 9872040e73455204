package sqldb

import (
	"context"
	"errors"
)

// errRehearsed ends the rehearsal of a function that would have been committed.
var errRehearsed = errors.New("this was the rehearsal")

// rehearse runs fn once for nothing, as a deadlock at the last moment would: see Options.Twice. It
// returns an error when fn itself fails.
func (p *pool) rehearse(ctx context.Context, fn func(context.Context, *Tx) error) error {
	_, err := p.once(ctx, func(ctx context.Context, tx *Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return errRehearsed
	})
	if errors.Is(err, errRehearsed) || worthRerun(err) {
		return nil
	}
	return err
}
