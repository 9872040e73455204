package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/timer"
)

// samples are figures of the installation as a whole. They cost a walk over the timers or questions to the database and the
// brokers, so they are taken now and then, by one instance; the others show none, and sums over instances stay right.
type samples struct {
	pending     map[timer.Kind]timer.Horizon
	lags        []stream.Lag
	unsent      int64
	oldest      time.Duration
	alive       int
	corrections map[string]int64 // findings that were repaired, by invariant
	uploads     map[string]int64 // those that are open, by state
	exports     map[string]int64 // batches of documents that hold something, by state
	bundles     map[string]int64 // those that have not ended, by state
	dead        int64            // dead letters; -1: not known
}

// leaseSample is that of who takes samples.
const leaseSample = "figures"

// sampleEvery is how old the figures may be.
const sampleEvery = 30 * time.Second

// sampler keeps the samples. They are gone when another instance takes over.
type sampler struct{ last atomic.Pointer[samples] }

// sample takes samples until ctx is done.
func (a *App) sample(ctx context.Context) error {
	defer a.sampled.last.Store(nil)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s, err := a.takeSamples(ctx)
		if err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "some figures could not be taken", "error", err)
		}
		a.sampled.last.Store(&s)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// takeSamples returns what could be had; what could not is absent.
func (a *App) takeSamples(ctx context.Context) (s samples, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	pending, pendingErr := a.engine.Sample(ctx)
	lags, lagErr := a.records.lags(ctx)
	unsent, oldest, unsentErr := a.unsent(ctx)
	alive, aliveErr := a.member.Alive(ctx)
	corrections, correctionErr := a.counted(ctx, countCorrections)
	uploads, uploadErr := a.counted(ctx, countUploads)
	exports, exportErr := a.counted(ctx, countExports)
	bundles, bundleErr := a.counted(ctx, countBundles)
	dead, deadErr := a.counted(ctx, countDead)
	s = samples{
		pending: pending, lags: lags, unsent: unsent, oldest: oldest, alive: len(alive), corrections: corrections, uploads: uploads, exports: exports,
		bundles: bundles, dead: -1,
	}
	if deadErr == nil {
		s.dead = dead["all"]
	}
	return s, errors.Join(pendingErr, lagErr, unsentErr, aliveErr, correctionErr, uploadErr, exportErr, bundleErr, deadErr)
}

// unsent returns what waits for the broker; without one all of the outbox would, and nobody asks.
func (a *App) unsent(ctx context.Context) (n int64, oldest time.Duration, err error) {
	if a.records.unsent == nil {
		return 0, 0, nil
	}
	return a.records.unsent(ctx)
}

// What is counted every 30 s: a name and a number in each row.
const (
	countCorrections = `SELECT invariant, COUNT(*) FROM findings WHERE repaired <> 0 GROUP BY invariant`
	countUploads     = `SELECT state, COUNT(*) FROM uploads WHERE state IN ('active', 'parked', 'sealing', 'reclaiming') GROUP BY state`
	countExports     = `SELECT state, COUNT(*) FROM exports WHERE released_at = 0 GROUP BY state`
	countBundles     = `SELECT state, COUNT(*) FROM bundles WHERE state IN ('sealed', 'running') GROUP BY state`
	countDead        = `SELECT 'all', COUNT(*) FROM dead_letters`
)

// counted returns the numbers of a query that gives a name and a number in each row.
func (a *App) counted(ctx context.Context, query string) (map[string]int64, error) {
	type row struct {
		name string
		n    int64
	}
	rows, err := a.db.Query(ctx, query)
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

// observeSamples registers the figures that are sampled.
func (a *App) observeSamples() {
	m := a.metrics
	gauges := func(name, help string, labels []string, f func(s *samples, set func(float64, ...string))) {
		m.Gauges(name, help, labels, func(set func(float64, ...string)) {
			if s := a.sampled.last.Load(); s != nil {
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
	if a.records.unsent != nil {
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
	gauges("dead_letters", "Dead letters that nobody has replayed or dropped.", nil, func(s *samples, set func(float64, ...string)) {
		if s.dead >= 0 {
			set(float64(s.dead))
		}
	})
}
