package migrate

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// router routes the queries of the database handle while something moves. It implements
// sqldb.Router.
type router struct {
	*sides
	apply   *applier
	compare *comparator
	counts  *counters
}

var _ sqldb.Router = (*router)(nil)

// Write runs a transaction on the primary. A transaction that meets a switch is rolled back and run
// again on the new primary; if there is none within switchWait, the error is Unavailable.
func (r *router) Write(ctx context.Context, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	var met time.Time
	for {
		v := r.currentSnapshot()
		switch {
		case v == nil:
			return r.home.DB.Write(ctx, fn)
		case v.primary != nil:
			err := v.primary.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
				if v.Phase != NewOnly { // phase 5 cannot be left
					if err := lockPrimary(ctx, tx, v.Migration); err != nil {
						return err
					}
				}
				return fn(ctx, tx)
			})
			if errors.Is(err, errMoved) {
				break
			}
			r.counts.noteWait(met)
			if err == nil && v.Phase >= DualWrite && v.Phase <= WriteNew && v.other != nil {
				r.secondWrite(ctx)
			}
			return err
		}
		if met.IsZero() {
			met = time.Now()
		}
		if _, err := r.waitPrimary(ctx, met.Add(switchWait)); err != nil {
			return err
		}
	}
}

// secondWrite applies the committed change to the secondary. If that fails, the change stays in
// migration_changes and is applied later.
func (r *router) secondWrite(ctx context.Context) {
	if r.apply.applyBriefly(ctx) {
		r.counts.secondWrites.Add(1)
	} else {
		r.counts.deferred.Add(1)
	}
}

// Primary returns the primary as known to this process, or the home side if nothing moves. During a
// switch, when no side is primary, it returns the fenced side; use it then only for the time.
func (r *router) Primary() *sqldb.DB {
	v := r.currentSnapshot()
	switch {
	case v == nil:
		return r.home.DB
	case v.primary != nil:
		return v.primary.DB
	case v.nearIsHome: // during a switch: both sides have the same time, and nobody reads yet
		return r.home.DB
	}
	return v.other.DB
}

// Reader returns the side for a read outside of transactions; account may be zero. again is the
// side to retry on if the read from from fails; nil: no retry. Around a switch it waits up to
// switchWait for a primary, then it fails with Unavailable.
func (r *router) Reader(ctx context.Context, account drive.AccountID) (from, again *sqldb.DB, err error) {
	v := r.currentSnapshot()
	if v == nil {
		return r.home.DB, nil, nil
	}
	if v.primary == nil || v.Careful || v.stale() {
		if v, err = r.verifiedSnapshot(ctx, v); err != nil {
			return nil, nil, err
		}
		if v == nil {
			return r.home.DB, nil, nil
		}
	}
	if v.Phase == ReadNew && v.other != nil && (v.readsNew(account) || r.notes().names(account.String())) {
		if r.isApplied(ctx, v, account) {
			return v.other.DB, v.primary.DB, nil
		}
		r.counts.fallback.Add(1)
	}
	return v.primary.DB, nil, nil
}

// verifiedSnapshot returns a verified snapshot around a switch, or after this process was asleep:
// it reads the row of the primary before each read, so that no read uses a side that was left.
func (r *router) verifiedSnapshot(ctx context.Context, v *snapshot) (*snapshot, error) {
	deadline := time.Now().Add(switchWait)
	for {
		if v == nil {
			return nil, nil
		}
		if v.primary != nil {
			var is role
			var epoch int64
			err := v.primary.DB.QueryRow(ctx, "SELECT role, epoch FROM migration_side WHERE id = 1 AND migration = ?", v.Migration).Scan(&is, &epoch)
			if err == nil && is == primary && epoch == v.Epoch {
				return v, nil
			}
		}
		var err error
		if v, err = r.waitPrimary(ctx, deadline); err != nil {
			return nil, err
		}
	}
}

// OnRead is called after a read on from: it counts reads at the other side by success, and offers
// the query for comparison. It never blocks.
func (r *router) OnRead(_ context.Context, from *sqldb.DB, query string, args []any, err error) {
	v := r.currentSnapshot()
	if v == nil || v.other == nil {
		return
	}
	if from == v.other.DB {
		if err != nil {
			r.counts.fallback.Add(1)
		} else {
			r.counts.fromNew.Add(1)
		}
	}
	if v.Phase >= DualWrite && v.Phase <= WriteNew && err == nil {
		r.compare.offer(query, args)
	}
}

// readsNew reports whether an account reads from the new side. It compares a hash of the account
// with the percentage, so an account stays on the new side while the percentage grows.
func (v *snapshot) readsNew(account drive.AccountID) bool {
	if account.IsZero() {
		return false
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(v.Migration + account.String()))
	x := h.Sum64()
	x ^= x >> 33 // spread FNV's low bits, which are similar for similar ids
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x%100 < uint64(v.Percent)
}

// isApplied reports whether all changes of an account are applied to the secondary (M4). Changes
// without an account count for all accounts. It is false if a side has lost changes or the query
// fails.
func (r *router) isApplied(ctx context.Context, v *snapshot, account drive.AccountID) bool {
	if r.apply.lost.Load() {
		return false
	}
	var pending bool
	err := v.primary.DB.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM migration_changes WHERE account IN (?, ''))", account).Scan(&pending)
	return err == nil && !pending
}
