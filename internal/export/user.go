package export

import (
	"context"
	"errors"
	"time"

	"smartdrive/internal/base/drive"
)

// errInactive says that the user whose work it is was disabled or deleted.
var errInactive = errors.New("the user is not active")

// reasonInactive is what a batch or a job says that waits for its user.
const reasonInactive = "user-disabled"

// waitForUser is how long what belongs to a disabled user waits between two looks: it goes on when
// the user is enabled again.
const waitForUser = 10 * time.Minute

// active is errInactive unless the user is active.
func (g *ground) active(ctx context.Context, user drive.UserID) error {
	_, err := g.opt.Users.LinkEpoch(ctx, user)
	if drive.IsKind(err, drive.NotFound) {
		return errInactive
	}
	return err
}

// stopFor reports whether work for a user is to stop at its next save point. What cannot be asked
// now is asked at the next beat.
func (g *ground) stopFor(ctx context.Context, user drive.UserID) bool {
	return errors.Is(g.active(ctx, user), errInactive)
}
