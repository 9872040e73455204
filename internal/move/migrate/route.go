package migrate

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// traffic is what the handle of the database goes through while something moves.
type traffic struct {
	*both
	apply   *applier
	compare *comparator
	counts  *counters
}

var _ sqldb.Router = (*traffic)(nil)

// Write is sqldb.DB.Write, in the side that is the primary. A function that meets a switch runs
// again on the new one, from its beginning; nothing of it is left on the old one.
func (t *traffic) Write(ctx context.Context, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	var met time.Time
	for {
		v := t.known()
		switch {
		case v == nil:
			return t.home.DB.Write(ctx, fn)
		case v.near != nil:
			err := v.near.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
				if v.Phase != NewOnly { // from there nobody goes back
					if err := hold(ctx, tx, v.Migration); err != nil {
						return err
					}
				}
				return fn(ctx, tx)
			})
			if errors.Is(err, errMoved) {
				break
			}
			t.counts.waited(met)
			if err == nil && v.Phase >= Second && v.Phase <= WriteNew && v.other != nil {
				t.second(ctx)
			}
			return err
		}
		if met.IsZero() {
			met = time.Now()
		}
		if _, err := t.settled(ctx, met.Add(switchWait)); err != nil {
			return err
		}
	}
}

// second makes the second write of what was just committed; what fails stays in migration_changes
// and is applied later.
func (t *traffic) second(ctx context.Context) {
	if t.apply.settle(ctx) {
		t.counts.second.Add(1)
	} else {
		t.counts.deferred.Add(1)
	}
}

// Primary is the side that is the truth, as far as this process knows.
func (t *traffic) Primary() *sqldb.DB {
	v := t.known()
	switch {
	case v == nil:
		return t.home.DB
	case v.near != nil:
		return v.near.DB
	case v.home: // between the two: both have the same time, and nobody may read yet
		return t.home.DB
	}
	return v.other.DB
}

// Reader says where a read outside transactions goes.
func (t *traffic) Reader(ctx context.Context, account drive.AccountID) (from, again *sqldb.DB, err error) {
	v := t.known()
	if v == nil {
		return t.home.DB, nil, nil
	}
	if v.near == nil || v.Careful || v.stale() {
		if v, err = t.asked(ctx, v); err != nil {
			return nil, nil, err
		}
		if v == nil {
			return t.home.DB, nil, nil
		}
	}
	if v.Phase == ReadNew && v.other != nil && (v.reads(account) || t.notes().names(account.String())) {
		if t.isSettled(ctx, v, account) {
			return v.other.DB, v.near.DB, nil
		}
		t.counts.fallback.Add(1)
	}
	return v.near.DB, nil, nil
}

// asked is the view of a read around a switch, or of a process that was asleep: it asks the row of
// the primary before each read, so that nobody reads from a side that others have left.
func (t *traffic) asked(ctx context.Context, v *view) (*view, error) {
	deadline := time.Now().Add(switchWait)
	for {
		if v == nil {
			return nil, nil
		}
		if v.near != nil {
			var is role
			var epoch int64
			err := v.near.DB.QueryRow(ctx, "SELECT role, epoch FROM migration_side WHERE id = 1 AND migration = ?", v.Migration).Scan(&is, &epoch)
			if err == nil && is == primary && epoch == v.Epoch {
				return v, nil
			}
		}
		var err error
		if v, err = t.settled(ctx, deadline); err != nil {
			return nil, err
		}
	}
}

// Read notes where a read was answered, and takes samples to be compared.
func (t *traffic) Read(_ context.Context, from *sqldb.DB, query string, args []any, err error) {
	v := t.known()
	if v == nil || v.other == nil {
		return
	}
	if from == v.other.DB {
		if err != nil {
			t.counts.fallback.Add(1)
		} else {
			t.counts.fromNew.Add(1)
		}
	}
	if v.Phase >= Second && v.Phase <= WriteNew && err == nil {
		t.compare.offer(query, args)
	}
}

// reads reports whether an account reads from the new side: a fixed number of each account below
// the percentage, so that who has changed over stays there while it grows.
func (v *view) reads(account drive.AccountID) bool {
	if account.IsZero() {
		return false
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(v.Migration + account.String()))
	x := h.Sum64()
	x ^= x >> 33 // FNV's low bits of ids that differ in one place are not spread enough
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x%100 < uint64(v.Percent)
}

// isSettled reports whether everything that was committed for an account before now is on the new
// side (M4). What belongs to nobody counts for everybody.
func (t *traffic) isSettled(ctx context.Context, v *view, account drive.AccountID) bool {
	if t.apply.lost.Load() {
		return false
	}
	var pending bool
	err := v.near.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM migration_changes WHERE account IN (?, ''))", account).Scan(&pending)
	return err == nil && !pending
}
