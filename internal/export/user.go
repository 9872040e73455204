package export

import (
	"context"
	"errors"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// errInactive reports that the user who requested the work is disabled or deleted.
var errInactive = errors.New("the user is not active")

// reasonInactive is the error shown on a batch or job that waits for its user.
const reasonInactive = "user-disabled"

// waitForUser is the delay before work of a disabled user is tried again. It resumes when the user
// is enabled.
const waitForUser = 10 * time.Minute

// checkActive returns nil if the user may sign in, errInactive if the user is disabled or deleted,
// and other errors of the lookup.
func (c *core) checkActive(ctx context.Context, user drive.UserID) error {
	_, err := c.opt.Users.LinkEpoch(ctx, user)
	if drive.IsKind(err, drive.NotFound) {
		return errInactive
	}
	return err
}

// userInactive reports whether the user is disabled or deleted, so that work must stop at its next
// save point. On a database error it reports false; the next heartbeat asks again.
func (c *core) userInactive(ctx context.Context, user drive.UserID) bool {
	return errors.Is(c.checkActive(ctx, user), errInactive)
}
