package fsck

import (
	"context"
	"errors"
	"fmt"

	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// metaRestored is the name of the mark in the meta table that a restored backup sets.
const metaRestored = "restored"

// Restored reports whether a backup was restored and no check has been clean since: until then
// nothing is reclaimed, unlinked or repaired but by an administrator's word.
func Restored(ctx context.Context, q sqldb.Querier) (bool, error) {
	value, err := meta.Find(ctx, q, metaRestored)
	if err != nil {
		return false, fmt.Errorf("look for a restored backup: %w", err)
	}
	return value == "1", nil
}

// errNotClean is the refusal to end the restored mode after a check that has left something.
var errNotClean = errors.New("the check has left findings that are not repaired")

// EndRestored takes the mark away after a clean check. The server must be restarted to act on it.
func EndRestored(ctx context.Context, db *sqldb.DB, r Report) error {
	if !r.Clean() {
		return errNotClean
	}
	return db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return meta.Delete(ctx, tx, metaRestored) })
}
