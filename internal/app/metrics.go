package app

import (
	"context"
	"sync/atomic"

	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/retention"
	"smartdrive/internal/engine/stream/kafka"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/engine/timer/redis"
	"smartdrive/internal/export"
	"smartdrive/internal/intake/ingest"
	"smartdrive/internal/usecase/fsck"
)

// counts registers a counter for an atomic number.
func counts(m *telemetry.Metrics, name, help string, n *atomic.Int64) {
	m.CounterFunc(name, help, func() float64 { return float64(n.Load()) })
}

// observe registers the metrics of all parts. Expensive ones are sampled; see sample.go.
func (a *App) observe() {
	m, db := a.metrics, a.platform.db.Stats()
	counts(m, "db_writes_total", "Write transactions that were committed.", &db.Writes)
	counts(m, "db_commits_total", "Commits of the database: fewer than writes when they share one.", &db.Commits)
	counts(m, "db_failed_total", "Write transactions that failed.", &db.Failed)
	counts(m, "db_reruns_total", "Write transactions that ran again after a deadlock, or a lock that was not had in time.", &db.Reruns)
	m.Gauge("db_writes_pending", "Write transactions that run or wait for their turn.", func() float64 { return float64(db.Pending.Load()) })
	if disk := a.platform.storage.store; disk.Caps().ReportsFree {
		m.Gauge("disk_free_bytes", "Bytes free where the blobs are.", func() float64 {
			free, err := disk.Free(context.Background())
			if err != nil {
				return -1
			}
			return float64(free)
		})
	}
	a.platform.observeDisks(m)
	counts(m, "thumbnails_made_total", "Thumbnails that were made.", &a.thumbs.Counters.Made)
	counts(m, "thumbnails_kept_total", "Requests for thumbnails that were answered from what is kept.", &a.thumbs.Counters.Kept)
	counts(m, "thumbnails_refused_total", "Files that no thumbnail can be made of.", &a.thumbs.Counters.Refused)
	counts(m, "thumbnails_helped_total", "Files that a helper made a picture of, or tried to.", &a.thumbs.Counters.Helped)
	counts(m, "thumbnails_apart_total", "Images that were decoded in a process of their own.", &a.thumbs.Counters.Apart)
	counts(m, "unlinked_files_total", "Contents that nobody had any more and that were deleted.", &a.unlinker.Counters.Files)
	counts(m, "unlinked_bytes_total", "Their bytes.", &a.unlinker.Counters.Bytes)
	counts(m, "unlink_deferred_total", "Contents that nobody had any more and that stay until more of their packs is to be deleted.", &a.unlinker.Counters.Deferred)
	counts(m, "unlink_failures_total", "Deletions of contents that failed and will be tried again.", &a.unlinker.Counters.Failed)
	counts(m, "outbox_published_total", "Records published.", &a.outbox.Counters().Published)
	observeIntake(m, a.intake)
	observeMove(m, a.mover)
	observeRetention(m, a.platform.kept)
	observeTimers(m, a.timers.engine)
	a.traces.observe(m)
	observeExports(m, a.exports)
	observeAudit(m, a.auditor)
	if queue := a.platform.shared.queue; queue != nil {
		observeQueue(m, queue)
	}
	if broker := a.platform.shared.broker; broker != nil {
		observeBroker(m, broker)
	}
	a.sampler.observe(m)
}

// observeRetention registers the delay of retention after a clock step.
func observeRetention(m *telemetry.Metrics, kept *retention.Clock) {
	m.Gauge("retention_behind_seconds", "By how much what is kept is kept for longer, because a clock has stepped.", func() float64 {
		return kept.Behind().Seconds()
	})
}

// observeMove registers the state of a migration.
func observeMove(m *telemetry.Metrics, move *mover) {
	m.Gauge("migration_phase", "Phase of the migration that is under way; -1 when nothing moves.", func() float64 {
		if state := move.rows.State(); state.ID != "" {
			return float64(state.Phase)
		}
		return -1
	})
	m.Gauge("migration_contents_waiting", "Contents that are to be copied to the other side; -1 when that cannot be asked.", func() float64 {
		n, err := move.copier.Queued(context.Background())
		if err != nil {
			return -1
		}
		return float64(n)
	})
}

// observeTimers registers the counters of timers that this instance has delivered, by kind.
func observeTimers(m *telemetry.Metrics, engine *timer.Engine) {
	kinds := map[string]*timer.Counters{}
	for _, kind := range timer.Kinds() {
		c := engine.Counters(kind)
		if c == nil {
			continue
		}
		kinds[kind.String()] = c
		counts(m, "timers_"+kind.String()+"_fired_total", "Timers of this kind that were delivered.", &c.Fired)
		counts(m, "timers_"+kind.String()+"_dead_total", "Timers of this kind whose handler failed for good.", &c.Dead)
	}
	for name, figure := range map[string]struct {
		help string
		of   func(*timer.Counters) *atomic.Int64
	}{
		"timers_repeated_total":     {"Deliveries after the first: a lease ran out, or a retry.", func(c *timer.Counters) *atomic.Int64 { return &c.Repeated }},
		"timers_early_total":        {"Timers that came up and went back because of activity.", func(c *timer.Counters) *atomic.Int64 { return &c.Early }},
		"timers_retries_total":      {"Failures of handlers that consumed an attempt.", func(c *timer.Counters) *atomic.Int64 { return &c.Retries }},
		"timers_waits_total":        {"Failures of handlers because something was unavailable.", func(c *timer.Counters) *atomic.Int64 { return &c.Waits }},
		"timers_lease_errors_total": {"Times the queue could not be asked.", func(c *timer.Counters) *atomic.Int64 { return &c.LeaseErrs }},
	} {
		m.Counters(name, figure.help, []string{"kind"}, func(set func(float64, ...string)) {
			for kind, c := range kinds {
				set(float64(figure.of(c).Load()), kind)
			}
		})
	}
	m.CounterFunc("timers_losses_total", "Times the queue was found to have lost timers.", func() float64 { return float64(engine.Losses()) })
	m.Histograms("timers_lateness_seconds", "From when a timer was due to the start of its handler.", []string{"kind"},
		func(set func(telemetry.HistogramState, ...string)) {
			for kind, c := range kinds {
				set(histogram(&c.Lateness), kind)
			}
		})
}

// histogram converts the timers' lateness histogram; its nanoseconds become seconds.
func histogram(h *timer.Histogram) telemetry.HistogramState {
	c := telemetry.HistogramState{Sum: float64(h.Sum.Load()) / 1e9}
	for _, bound := range timer.LatenessBounds {
		c.Bounds = append(c.Bounds, bound.Seconds())
	}
	for i := range h.Buckets {
		c.Counts = append(c.Counts, uint64(h.Buckets[i].Load())) //nolint:gosec // it only grows from 0
	}
	return c
}

// observeAudit registers the results of this instance's audits.
func observeAudit(m *telemetry.Metrics, auditor *fsck.Checker) {
	c := &auditor.Counters
	counts(m, "audit_passes_total", "Audits that came to their end.", &c.Passes)
	counts(m, "audit_findings_total", "Defects that were found.", &c.Findings)
	counts(m, "audit_repaired_total", "Defects that were repaired.", &c.Repaired)
	counts(m, "audit_quarantined_total", "Things that nobody could explain and that were moved aside.", &c.Quarantined)
	counts(m, "audit_damaged_total", "Blobs found missing or changed.", &c.Damaged)
	m.Gauge("database_damaged", "1: the last check of the pages of the SQLite database has found damage; 0: it has not, or the database is on a server.", func() float64 {
		if auditor.DatabaseDamaged() {
			return 1
		}
		return 0
	})
	m.Gauge("database_checked_timestamp_seconds", "When the pages of the SQLite database were checked last, in Unix time; 0: not since the start.", func() float64 {
		return float64(c.PagesAt.Load() / 1000)
	})
}

// observeExports registers the counters of this instance's export workers.
func observeExports(m *telemetry.Metrics, exports *export.Exports) {
	c := exports.Counters()
	counts(m, "exports_sealed_total", "Batches of documents that were sealed.", &c.Sealed)
	counts(m, "exports_aborted_total", "Tries of batches that failed and are repeated.", &c.Aborted)
	counts(m, "exports_failed_total", "Batches that failed for good.", &c.Failed)
	counts(m, "exports_late_total", "Batches that ran for longer than --export-late.", &c.Late)
	counts(m, "exports_taken_over_total", "Batches and jobs that were taken from a worker whose lease had ended.", &c.TakenOver)
	counts(m, "exports_lost_total", "Batches and jobs that this instance worked on and that are another's.", &c.Lost)
	counts(m, "exports_handed_over_total", "Batches that were given to a machine that would be quicker.", &c.HandedOver)
	counts(m, "export_entries_collected_total", "Entries of batches that have arrived.", &c.Collected)
	counts(m, "export_entries_failed_total", "Entries of batches that could not be had.", &c.FailedEntries)
	counts(m, "export_fetched_bytes_total", "Bytes of documents that were fetched from elsewhere.", &c.Fetched)
	counts(m, "export_saved_total", "Zips that were written into the drive or the bucket.", &c.FinishedJobs)
	counts(m, "export_save_failures_total", "Zips that could not be written into the drive or the bucket.", &c.FailedJobs)
	counts(m, "export_sent_bytes_total", "Bytes of zips that were sent.", &c.Sent)
	counts(m, "export_broken_entries_total", "Entries of zips that could not be delivered as they were sealed.", &c.BrokenEntries)
	m.CounterFunc("export_displaced_total", "Zips that were broken off while they were sent, because others had less of the memory.", func() float64 {
		return float64(exports.EvictedDownloads())
	})
}

// observeIntake registers what this instance has taken in.
func observeIntake(m *telemetry.Metrics, intake *ingest.Intake) {
	s := intake.Stats()
	counts(m, "bundles_done_total", "Bundles of documents that were taken in.", &s.Done)
	counts(m, "bundles_rejected_total", "Bundles that were rejected as a whole.", &s.Rejected)
	counts(m, "bundles_retried_total", "Times a bundle was put off because of an error.", &s.Retried)
	counts(m, "bundles_found_total", "Bundles that the reconciler found and nobody had told of.", &s.Found)
	counts(m, "documents_accepted_total", "Documents of bundles that were accepted.", &s.Accepted)
	counts(m, "documents_rejected_total", "Documents of bundles that were rejected, those of rejected bundles apart.", &s.Refused)
	counts(m, "documents_duplicate_total", "Documents that were there already.", &s.Double)
	counts(m, "documents_conflict_total", "Documents that contradict one that was there.", &s.Torn)
}

// observeQueue registers this instance's use of the shared timer queue.
func observeQueue(m *telemetry.Metrics, queue *redis.Queue) {
	c := queue.Counters()
	counts(m, "timer_touches_total", "Times activity was reported to the queue.", &c.Touches)
	counts(m, "timer_touches_coalesced_total", "Reports of activity that another one stood for.", &c.Coalesced)
	counts(m, "timer_touches_dropped_total", "Reports of activity that were given up: Redis was away for long.", &c.Dropped)
	counts(m, "timer_republished_total", "Fired timers that were handed out again.", &c.Republished)
	counts(m, "timer_shard_losses_total", "Shards that were found empty, or on another server.", &c.Losses)
	counts(m, "timer_clock_steps_total", "Times a clock of Redis was found off by more than a minute.", &c.Steps)
	m.Gauge("timer_shards_owned", "Shards that are this instance's to watch.", func() float64 {
		_, own := queue.Owners()
		return float64(own)
	})
}

// observeBroker registers this instance's use of Kafka.
func observeBroker(m *telemetry.Metrics, broker *kafka.Stream) {
	c := broker.Counters()
	counts(m, "stream_relayed_total", "Records of the outbox that were sent to the broker.", &c.Relayed)
	counts(m, "stream_resent_total", "Of those, sent again because the mark could not be set.", &c.Resent)
	counts(m, "stream_sent_total", "Fired timers that were sent to the broker.", &c.Sent)
	counts(m, "stream_forwarded_total", "Records that came back from a delay level.", &c.Forwarded)
	counts(m, "stream_foreign_total", "Records of other producers that went from a delay level to their topic.", &c.Foreign)
	counts(m, "stream_drained_total", "Dead letters that were taken over into the list.", &c.Drained)
	counts(m, "stream_partitions_moved_total", "Partitions that were taken away from this instance.", &c.Moved)
	counts(m, "stream_outcomes_dropped_total", "Outcomes that were not settled because their partition had moved.", &c.Dropped)
	m.Gauge("stream_level_overdue_seconds", "By how much the latest record of a delay level that this instance holds is overdue.", func() float64 {
		_, overdue := broker.Waiting()
		return overdue.Seconds()
	})
	counts(m, "stream_pauses_total", "Times a loop had to pause because of an outage.", &c.Errors)
}
