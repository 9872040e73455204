package app

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/files"
)

// accountRetry is the retry interval of an operation that waits for another one of its account.
const accountRetry = time.Second

// roomRetry is the retry interval of an operation that waits for quota in its target, or for
// another operation to end.
const roomRetry = 15 * time.Second

// operations runs long operations, each on its timer.
type operations struct {
	timers *timers
	files  *files.Operations
	bulk   *bulk.Bulk
}

// onTimer handles the timer of an operation: it runs a part of the operation and rearms the
// timer, by returning timer.Later, while work is left or must wait. Another error makes the engine
// retry the timer.
func (o operations) onTimer(ctx context.Context, f timer.Fired) error {
	id := drive.OperationID(f.Key.ID)
	progress, err := o.bulk.Run(ctx, id)
	switch {
	case drive.IsKind(err, drive.NotFound):
		err := o.files.Run(ctx, id)
		if files.ShouldRetryLater(err) { // not a failure: it continues when there is space
			return timer.Later(roomRetry)
		}
		return err
	case err != nil:
		return err
	case progress == bulk.Continue:
		return timer.Later(0)
	case progress == bulk.Blocked:
		return timer.Later(accountRetry)
	}
	return nil
}

// armTimers arms the timers of all running operations. Armed timers stay as they are. It stops at
// the first error of a query or of arming.
func (o operations) armTimers(ctx context.Context) error {
	for _, list := range []func(context.Context, drive.OperationID, int) ([]drive.OperationID, error){o.files.ListRunning, o.bulk.ListRunning} {
		for after, more := (drive.OperationID{}), true; more; {
			running, err := list(ctx, after, 100)
			if err != nil {
				return err
			}
			for _, id := range running {
				o.timers.startOperation(id)
				after = id
			}
			more = len(running) > 0
		}
	}
	return nil
}
