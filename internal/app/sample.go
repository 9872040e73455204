package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/growth"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/timer"
)

// samples are metrics of the whole installation. They are expensive, so one instance takes them
// periodically. The other instances report none, so that sums over instances are right.
type samples struct {
	pending     map[timer.Kind]timer.DueCounts
	lags        []stream.Lag
	unsent      int64            // records that wait to be sent to the broker
	oldest      time.Duration    // age of the oldest of them
	alive       int              // live instances
	corrections map[string]int64 // repaired findings by invariant
	uploads     map[string]int64 // open uploads by state
	exports     map[string]int64 // unreleased exports by state
	bundles     map[string]int64 // unfinished bundles by state
	dead        int64            // dead letters; -1: unknown
	crowded     int64            // accounts near the limit of nodes; -1: unknown
}

// leaseSample names the lease held by the instance that takes samples.
const leaseSample = "figures"

// sampleEvery is the interval of sampling.
const sampleEvery = 30 * time.Second

// growEvery is the interval of recording the day's growth.
const growEvery = time.Hour

// sampler takes samples and keeps the latest. They are dropped when another instance takes over.
type sampler struct {
	log     *slog.Logger
	db      *sqldb.DB
	member  *instance.Member
	timers  *timer.Engine
	records recordFlow
	store   blob.Store
	growth  *growth.Growth
	tree    *tree.Tree
	last    atomic.Pointer[samples]
}

// run takes samples every sampleEvery until ctx is done, then withdraws the last one and returns
// nil. Failures are logged and retried. Only the lease holder may run it.
func (k *sampler) run(ctx context.Context) error {
	defer k.last.Store(nil)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var grown time.Time // time of the last recorded growth
	var blind telemetry.Outage
	crowded := int64(-1)
	for {
		s, err := k.sample(ctx)
		blind.Record(ctx, k.log, "some metrics could not be sampled; they are absent until the next sample", err)
		hourly := time.Since(grown) >= growEvery
		if hourly {
			if crowded, err = tree.CountNearLimit(ctx, k.tree, k.db); err != nil {
				crowded = -1
				if ctx.Err() == nil {
					k.log.WarnContext(ctx, "the accounts near the limit of nodes could not be counted; retried within the hour", "error", err)
				}
			}
		}
		s.crowded = crowded
		k.last.Store(&s)
		if hourly {
			if err := k.recordGrowth(ctx); err == nil {
				grown = time.Now()
			} else if ctx.Err() == nil {
				k.log.WarnContext(ctx, "the growth figures of the day could not be stored; the next sample retries", "error", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sample reads all figures, for at most sampleEvery. Figures that could not be read are zero, nil
// or -1, and the error joins the failures.
func (k *sampler) sample(ctx context.Context) (s samples, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	pending, pendingErr := k.timers.Sample(ctx)
	lags, lagErr := k.records.lags(ctx)
	unsent, oldest, unsentErr := k.unsent(ctx)
	alive, aliveErr := k.member.Alive(ctx)
	corrections, correctionErr := counted(ctx, k.db, countCorrections)
	uploads, uploadErr := counted(ctx, k.db, countUploads)
	exports, exportErr := counted(ctx, k.db, countExports)
	bundles, bundleErr := counted(ctx, k.db, countBundles)
	dead, deadErr := counted(ctx, k.db, countDead)
	s = samples{
		pending: pending, lags: lags, unsent: unsent, oldest: oldest, alive: len(alive), corrections: corrections, uploads: uploads, exports: exports,
		bundles: bundles, dead: -1,
	}
	if deadErr == nil {
		s.dead = dead["all"]
	}
	return s, errors.Join(pendingErr, lagErr, unsentErr, aliveErr, correctionErr, uploadErr, exportErr, bundleErr, deadErr)
}

// recordGrowth writes the figures of the day, with the free bytes where the store reports them. It
// fails after sampleEvery at the latest.
func (k *sampler) recordGrowth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	if !k.store.Caps().ReportsFree {
		return k.growth.Record(ctx, nil)
	}
	free, err := k.store.Free(ctx)
	if err != nil {
		return fmt.Errorf("ask what is free: %w", err)
	}
	return k.growth.Record(ctx, &free)
}

// unsent returns the number of records that wait to be sent to the broker and the age of the
// oldest; zero without a broker.
func (k *sampler) unsent(ctx context.Context) (n int64, oldest time.Duration, err error) {
	if k.records.unsent == nil {
		return 0, 0, nil
	}
	return k.records.unsent(ctx)
}

// Queries of the samples; each row has a name and a number.
const (
	countCorrections = `SELECT invariant, COUNT(*) FROM findings WHERE repaired <> 0 GROUP BY invariant`
	countUploads     = `SELECT state, COUNT(*) FROM uploads WHERE state IN ('active', 'parked', 'sealing', 'reclaiming') GROUP BY state`
	countExports     = `SELECT state, COUNT(*) FROM exports WHERE released_at = 0 GROUP BY state`
	countBundles     = `SELECT state, COUNT(*) FROM bundles WHERE state IN ('sealed', 'running') GROUP BY state`
	countDead        = `SELECT 'all', COUNT(*) FROM dead_letters`
)

// counted returns the rows of a query that selects a name and a number, as a map by name. It fails
// with the error of the query.
func counted(ctx context.Context, db *sqldb.DB, query string) (map[string]int64, error) {
	type row struct {
		name string
		n    int64
	}
	rows, err := db.Query(ctx, query)
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.name, &r.n) })
	if err != nil {
		return nil, fmt.Errorf("count rows for figures: %w", err)
	}
	n := map[string]int64{}
	for _, r := range all {
		n[r.name] = r.n
	}
	return n, nil
}

// observe registers gauges for the latest samples. While there is no sample, the gauges are absent.
func (k *sampler) observe(m *telemetry.Metrics) {
	gauges := func(name, help string, labels []string, f func(s *samples, set func(float64, ...string))) {
		m.Gauges(name, help, labels, func(set func(float64, ...string)) {
			if s := k.last.Load(); s != nil {
				f(s, set)
			}
		})
	}
	gauges("instances_alive", "Instances that are alive.", nil, func(s *samples, set func(float64, ...string)) { set(float64(s.alive)) })
	gauges("timers_pending", "Timers by when they are due: within a minute, an hour, a day, later; or leased. In Redis a sixteenth is counted every 30 s.", []string{"kind", "horizon"},
		func(s *samples, set func(float64, ...string)) {
			for kind, h := range s.pending {
				for horizon, n := range map[string]int64{"minute": h.Minute, "hour": h.Hour, "day": h.Day, "more": h.More, "leased": h.Leased} {
					set(float64(n), kind.String(), horizon)
				}
			}
		})
	gauges("consumer_behind_records", "Records that a consumer has not settled yet.", []string{"consumer", "topic"},
		func(s *samples, set func(float64, ...string)) {
			for _, l := range s.lags {
				set(float64(l.Offsets), l.Consumer, string(l.Topic))
			}
		})
	gauges("consumer_waiting_records", "Records that wait on the delay levels.", []string{"consumer", "topic"},
		func(s *samples, set func(float64, ...string)) {
			for _, l := range s.lags {
				set(float64(l.Waiting), l.Consumer, string(l.Topic))
			}
		})
	if k.records.unsent != nil {
		gauges("outbox_unsent_records", "Records of the outbox that the broker does not have yet.", nil,
			func(s *samples, set func(float64, ...string)) { set(float64(s.unsent)) })
		gauges("outbox_lag_seconds", "Age of the oldest record of the outbox that the broker does not have yet.", nil,
			func(s *samples, set func(float64, ...string)) { set(s.oldest.Seconds()) })
	}
	gauges("audit_corrections", "Findings on record that were repaired, by invariant; Q1 to Q3 are the ledger's.", []string{"invariant"},
		func(s *samples, set func(float64, ...string)) {
			for invariant, n := range s.corrections {
				set(float64(n), invariant)
			}
		})
	gauges("uploads", "Uploads that have not ended, by state.", []string{"state"}, func(s *samples, set func(float64, ...string)) {
		for _, state := range []string{"active", "parked", "sealing", "reclaiming"} {
			if s.uploads != nil {
				set(float64(s.uploads[state]), state)
			}
		}
	})
	gauges("exports", "Batches of documents that hold something, by state.", []string{"state"}, func(s *samples, set func(float64, ...string)) {
		for _, state := range []string{"pending", "running", "aborted", "sealed"} {
			if s.exports != nil {
				set(float64(s.exports[state]), state)
			}
		}
	})
	gauges("bundles", "Bundles of documents that have not ended, by state.", []string{"state"}, func(s *samples, set func(float64, ...string)) {
		for _, state := range []string{"sealed", "running"} {
			if s.bundles != nil {
				set(float64(s.bundles[state]), state)
			}
		}
	})
	gauges("accounts_near_max_nodes", "Accounts that have more than nine tenths of --max-nodes. Counted every hour.", nil, func(s *samples, set func(float64, ...string)) {
		if s.crowded >= 0 {
			set(float64(s.crowded))
		}
	})
	gauges("dead_letters", "Dead letters that nobody has replayed or dropped.", nil, func(s *samples, set func(float64, ...string)) {
		if s.dead >= 0 {
			set(float64(s.dead))
		}
	})
}
