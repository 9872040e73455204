package fsck

import (
	"context"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// metaRestored is the name in the meta table that marks a restored backup.
const metaRestored = "restored"

// Restored reports whether a backup was restored and no check has been clean since. Until then
// nothing is reclaimed, deleted or repaired, except on request of an administrator.
func Restored(ctx context.Context, q sqldb.Querier) (bool, error) {
	value, err := meta.Find(ctx, q, metaRestored)
	if err != nil {
		return false, fmt.Errorf("look for a restored backup: %w", err)
	}
	return value == "1", nil
}

// errNotClean reports that the restored mode cannot end: the check has unrepaired findings.
var errNotClean = errors.New("the check has left findings that are not repaired")

// EndRestored ends the restored mode after a clean check. It takes effect after a restart of the
// server.
func EndRestored(ctx context.Context, db *sqldb.DB, r Report) error {
	if !r.Clean() {
		return errNotClean
	}
	return db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Delete(ctx, tx, metaRestored) })
}
