package app

import (
	"context"
	"sync/atomic"

	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/export"
	"example.org/smartdrive/internal/intake/ingest"
	"example.org/smartdrive/internal/usecase/fsck"
	"example.org/smartdrive/internal/usecase/thumb"
	"example.org/smartdrive/internal/usecase/unlink"
)

// counts registers a counter for an atomic number.
func counts(m *telemetry.Metrics, name, help string, n *atomic.Int64) {
	m.CounterFunc(name, help, func() float64 { return float64(n.Load()) })
}

// observe registers the metrics of the database, the disks, the retention clock and the shared
// components.
func (p *platform) observe(m *telemetry.Metrics) {
	db := p.db.Stats()
	counts(m, "db_writes_total", "Committed write transactions.", &db.Writes)
	counts(m, "db_commits_total", "Database commits; several writes may share one.", &db.Commits)
	counts(m, "db_failed_total", "Failed write transactions.", &db.Failed)
	counts(m, "db_reruns_total", "Write transactions repeated after a deadlock or a lock timeout.", &db.Reruns)
	m.Gauge("db_writes_pending", "Write transactions running or queued.", func() float64 { return float64(db.Pending.Load()) })
	if disk := p.storage.store; disk.Caps().ReportsFree {
		m.Gauge("disk_free_bytes", "Free bytes on the file system of the blobs.", func() float64 {
			free, err := disk.Free(context.Background())
			if err != nil {
				return -1
			}
			return float64(free)
		})
	}
	p.observeDisks(m)
	m.Gauge("retention_behind_seconds", "Seconds by which retention is extended because a clock stepped.", func() float64 {
		return p.kept.Behind().Seconds()
	})
	if queue := p.shared.queue; queue != nil {
		observeQueue(m, queue)
	}
	if broker := p.shared.broker; broker != nil {
		observeBroker(m, broker)
	}
}

// observeThumbs registers the counters of thumbnails.
func observeThumbs(m *telemetry.Metrics, c *thumb.Counters) {
	counts(m, "thumbnails_made_total", "Thumbnails created.", &c.Made)
	counts(m, "thumbnails_kept_total", "Thumbnail requests served from the cache.", &c.Kept)
	counts(m, "thumbnails_refused_total", "Files refused for thumbnails.", &c.Refused)
	counts(m, "thumbnails_helped_total", "Files passed to an external preview program.", &c.Helped)
	counts(m, "thumbnails_apart_total", "Images decoded in a child process.", &c.Apart)
}

// observeUnlinker registers the counters of deleted contents.
func observeUnlinker(m *telemetry.Metrics, c *unlink.Counters) {
	counts(m, "unlinked_files_total", "Deleted unreferenced contents.", &c.Files)
	counts(m, "unlinked_bytes_total", "Bytes of deleted unreferenced contents.", &c.Bytes)
	counts(m, "unlink_deferred_total", "Unreferenced contents kept until more of their pack is unreferenced.", &c.Deferred)
	counts(m, "unlink_failures_total", "Failed deletions of contents, which are retried.", &c.Failed)
}

// observe registers the state of a migration.
func (m *mover) observe(metrics *telemetry.Metrics) {
	metrics.Gauge("migration_phase", "Phase of the running migration; -1: none.", func() float64 {
		if state := m.rows.State(); state.ID != "" {
			return float64(state.Phase)
		}
		return -1
	})
	metrics.Gauge("migration_contents_waiting", "Contents to be copied to the other side; -1: unknown.", func() float64 {
		n, err := m.copier.Queued(context.Background())
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
		counts(m, "timers_"+kind.String()+"_fired_total", "Delivered timers of this kind.", &c.Fired)
		counts(m, "timers_"+kind.String()+"_dead_total", "Timers of this kind whose handler failed permanently.", &c.Dead)
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
	m.CounterFunc("timers_losses_total", "Detected losses of timers in the queue.", func() float64 { return float64(engine.Losses()) })
	m.Histograms("timers_lateness_seconds", "Seconds from a timer's due time to the start of its handler.", []string{"kind"},
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
	counts(m, "audit_passes_total", "Completed audits.", &c.Passes)
	counts(m, "audit_findings_total", "Defects found by audits.", &c.Findings)
	counts(m, "audit_repaired_total", "Defects repaired by audits.", &c.Repaired)
	counts(m, "audit_quarantined_total", "Unexplained files moved to quarantine.", &c.Quarantined)
	counts(m, "audit_damaged_total", "Blobs found missing or damaged.", &c.Damaged)
	m.Gauge("database_damaged", "1: the last check of the SQLite pages found damage; 0: no damage, or not SQLite.", func() float64 {
		if auditor.DatabaseDamaged() {
			return 1
		}
		return 0
	})
	m.Gauge("database_checked_timestamp_seconds", "Unix time of the last check of the SQLite pages; 0: not since the start.", func() float64 {
		return float64(c.PagesAt.Load() / 1000)
	})
}

// observeExports registers the counters of this instance's export workers.
func observeExports(m *telemetry.Metrics, exports *export.Exports) {
	c := exports.Counters()
	counts(m, "exports_sealed_total", "Sealed exports.", &c.Sealed)
	counts(m, "exports_aborted_total", "Failed attempts of exports that are retried.", &c.Aborted)
	counts(m, "exports_failed_total", "Exports that failed permanently.", &c.Failed)
	counts(m, "exports_late_total", "Exports that ran longer than --export-late.", &c.Late)
	counts(m, "exports_taken_over_total", "Exports and jobs acquired from a worker whose lease expired.", &c.TakenOver)
	counts(m, "exports_lost_total", "Exports and jobs of this instance that another instance acquired.", &c.Lost)
	counts(m, "exports_handed_over_total", "Exports handed over to a faster machine.", &c.HandedOver)
	counts(m, "export_entries_collected_total", "Collected entries of exports.", &c.Collected)
	counts(m, "export_entries_failed_total", "Failed entries of exports.", &c.FailedEntries)
	counts(m, "export_fetched_bytes_total", "Bytes of documents fetched from URLs.", &c.Fetched)
	counts(m, "export_saved_total", "Zips saved to the drive or the bucket.", &c.FinishedJobs)
	counts(m, "export_save_failures_total", "Failed attempts to save a zip to the drive or the bucket.", &c.FailedJobs)
	counts(m, "export_sent_bytes_total", "Bytes of zips sent.", &c.Sent)
	counts(m, "export_broken_entries_total", "Zip entries whose content differed from the sealed export or could not be read.", &c.BrokenEntries)
	m.CounterFunc("export_displaced_total", "Zip downloads interrupted to free memory for others.", func() float64 {
		return float64(exports.EvictedDownloads())
	})
}

// observeIntake registers what this instance has taken in.
func observeIntake(m *telemetry.Metrics, intake *ingest.Intake) {
	s := intake.Stats()
	counts(m, "bundles_done_total", "Imported bundles.", &s.Done)
	counts(m, "bundles_rejected_total", "Rejected bundles.", &s.Rejected)
	counts(m, "bundles_retried_total", "Retries of bundles after an error.", &s.Retried)
	counts(m, "bundles_found_total", "Bundles found by the reconciler without an event.", &s.Found)
	counts(m, "documents_accepted_total", "Accepted documents.", &s.Accepted)
	counts(m, "documents_rejected_total", "Rejected documents, except in rejected bundles.", &s.Refused)
	counts(m, "documents_duplicate_total", "Duplicate documents.", &s.Double)
	counts(m, "documents_conflict_total", "Documents in conflict with an existing one.", &s.Torn)
}

// observeQueue registers this instance's use of the shared timer queue.
func observeQueue(m *telemetry.Metrics, queue *redis.Queue) {
	c := queue.Counters()
	counts(m, "timer_touches_total", "Reports of activity to the timer queue.", &c.Touches)
	counts(m, "timer_touches_coalesced_total", "Reports of activity coalesced with another.", &c.Coalesced)
	counts(m, "timer_touches_dropped_total", "Reports of activity dropped during a long outage of Redis.", &c.Dropped)
	counts(m, "timer_republished_total", "Fired timers delivered again.", &c.Republished)
	counts(m, "timer_shard_losses_total", "Timer shards found empty or on another server.", &c.Losses)
	counts(m, "timer_clock_steps_total", "Detected clock steps of Redis by more than a minute.", &c.Steps)
	m.Gauge("timer_shards_owned", "Timer shards that this instance watches.", func() float64 {
		_, own := queue.Owners()
		return float64(own)
	})
}

// observeBroker registers this instance's use of Kafka.
func observeBroker(m *telemetry.Metrics, broker *kafka.Stream) {
	c := broker.Counters()
	counts(m, "stream_relayed_total", "Outbox records sent to the broker.", &c.Relayed)
	counts(m, "stream_resent_total", "Outbox records sent again because marking them failed.", &c.Resent)
	counts(m, "stream_sent_total", "Fired timers sent to the broker.", &c.Sent)
	counts(m, "stream_forwarded_total", "Records returned from a delay level.", &c.Forwarded)
	counts(m, "stream_foreign_total", "Records of other producers forwarded from a delay level to their topic.", &c.Foreign)
	counts(m, "stream_drained_total", "Dead letters moved from the broker to the database.", &c.Drained)
	counts(m, "stream_partitions_moved_total", "Partitions revoked from this instance.", &c.Moved)
	counts(m, "stream_outcomes_dropped_total", "Outcomes not settled because the partition was revoked.", &c.Dropped)
	m.Gauge("stream_level_overdue_seconds", "Seconds by which the latest record of a delay level on this instance is overdue.", func() float64 {
		_, overdue := broker.Waiting()
		return overdue.Seconds()
	})
	counts(m, "stream_pauses_total", "Pauses of consumer loops because of an outage.", &c.Errors)
}
