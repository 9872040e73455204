package migrate

import (
	"context"
	"sync"
	"time"
)

// Status returns the state of the migration. Data that cannot be read is left out, and a gate gives
// the reason.
func (m *Migration) Status(ctx context.Context) (Status, error) {
	if err := m.EnsureLoaded(ctx); err != nil {
		return Status{}, err
	}
	v := m.currentSnapshot()
	if v == nil {
		return Status{State: "none", Instances: []Instance{}, Gate: []Gate{}}, nil
	}
	s := Status{
		State: "running", ID: v.Migration, Phase: v.Phase, Epoch: v.Epoch, Percent: v.Percent, Paused: v.Paused, ChangedAt: v.ChangedAt, BegunAt: v.BegunAt,
		From: Place{DB: m.opt.Show(v.Here)}, To: Place{DB: m.opt.Show(v.Peer), Blobs: v.Contents}, Instances: []Instance{}, Gate: []Gate{},
		Reads: m.traffic.counts.reads(), Writes: m.traffic.counts.writes(), Pace: m.notes().pace, Accounts: m.notes().named,
	}
	if v.Phase >= WriteNew && v.Peer != "" {
		s.From, s.To = Place{DB: s.To.DB}, Place{DB: s.From.DB, Blobs: v.Contents}
	}
	if v.primary == nil {
		s.Gate = []Gate{{Name: "switch", Detail: "a switch is under way"}}
		return s, nil
	}
	return s, m.fillStatus(ctx, v, &s)
}

// fillStatus adds to s what is read from the databases: lag, mismatches, instances, comparison,
// progress and gates. After an error s is incomplete.
func (m *Migration) fillStatus(ctx context.Context, v *snapshot, s *Status) (err error) {
	if v.Phase < NewOnly { // later changes, until the triggers are dropped, are not applied
		if s.Lag, err = countChanges(ctx, v.primary.DB); err != nil {
			return err
		}
	}
	if s.Mismatches, err = m.countMismatches(ctx, v); err != nil {
		return err
	}
	if all, err := m.instances(ctx, v); err != nil {
		return err
	} else if all != nil {
		s.Instances = all
	}
	c, err := m.lastChecksum(ctx, v)
	if err != nil {
		return err
	}
	if c.id != "" {
		s.Checksum = c.forStatus()
	}
	if v.other != nil && v.Phase < WriteNew {
		if s.Progress.Rows, err = m.rowsProgress(ctx, v); err != nil {
			return err
		}
	}
	if m.party.Contents != nil && v.Contents != "" {
		if s.Progress.Blobs, err = m.party.Contents.Progress(ctx); err != nil {
			return err
		}
	}
	s.Progress.ETA = eta(s.Progress)
	if v.Phase < NewOnly {
		s.Gate, err = m.gates(ctx, v, v.Phase+1, false)
		return err
	}
	s.Old, err = m.oldSide.status(ctx, v)
	return err
}

// forStatus returns the comparison for Status. Equal is true only if it is done without unequal
// rows.
func (c checksum) forStatus() *Checksum {
	out := &Checksum{State: c.state, Equal: c.state == "done" && c.unequal == 0, Rows: c.rows, Unequal: c.unequal, Digest: c.digest, At: c.ended}
	if c.state != "done" {
		out.At = c.begun
	} else if took := c.ended.Sub(c.begun).Seconds(); took > 0 {
		out.Rate = float64(c.rows) / took
	}
	return out
}

// eta returns the estimated seconds until filling in and copying are done; 0: unknown.
func eta(p Progress) int64 {
	var left float64
	if p.Rows.Rate > 0 {
		left = max(left, float64(p.Rows.Total-p.Rows.Done)/p.Rows.Rate)
	}
	if p.Blobs.Rate > 0 && p.Blobs.Done > 0 {
		left = max(left, float64(p.Blobs.Total-p.Blobs.Done)*float64(p.Blobs.Bytes)/float64(p.Blobs.Done)/p.Blobs.Rate)
	}
	return int64(left)
}

// rowsProgress returns how many rows are filled in, of about how many, from the save points of the
// secondary, which must be open.
func (k *gatekeeper) rowsProgress(ctx context.Context, v *snapshot) (RowsProgress, error) {
	points, err := savePoints(ctx, v.other.DB, "fill")
	if err != nil {
		return RowsProgress{}, err
	}
	out := RowsProgress{Rate: k.rate.perSecond()}
	for _, p := range points {
		out.Done += p.done
		out.Total += max(p.total, p.done)
	}
	return out, nil
}

// reads returns the read counts for Status.
func (c *counters) reads() Reads {
	return Reads{New: c.fromNew.Load(), Fallback: c.fallback.Load(), Compared: c.compared.Load(), Skipped: c.skipped.Load()}
}

// writes returns the write counts for Status.
func (c *counters) writes() Writes {
	return Writes{Second: c.secondWrites.Load(), Deferred: c.deferred.Load(), Waited: c.waits.Load(), Pause: c.pause.Load()}
}

// noteWait counts a write that waited for a switch since the given time; zero: it did not wait.
func (c *counters) noteWait(since time.Time) {
	if since.IsZero() {
		return
	}
	c.waits.Add(1)
	took := time.Since(since).Milliseconds()
	for {
		old := c.pause.Load()
		if took <= old || c.pause.CompareAndSwap(old, took) {
			return
		}
	}
}

// meter measures the recent rate of rows.
type meter struct {
	mu    sync.Mutex
	since time.Time // start of the current period
	rows  int64     // counted in the current period
	last  float64   // rows per second in the last period
}

// meterPeriod is the period over which the rate is measured.
const meterPeriod = 5 * time.Second

// add counts rows that were just processed, for perSecond.
func (r *meter) add(rows int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || time.Since(r.since) > meterPeriod {
		if took := time.Since(r.since); !r.since.IsZero() && took < 2*meterPeriod {
			r.last = float64(r.rows) / took.Seconds()
		}
		r.since, r.rows = time.Now(), 0
	}
	r.rows += int64(rows)
}

// perSecond returns the rate of the last period in rows per second; 0 if nothing was counted
// lately.
func (r *meter) perSecond() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || time.Since(r.since) > 2*meterPeriod {
		return 0
	}
	if took := time.Since(r.since); r.last == 0 && took > 0 {
		return float64(r.rows) / took.Seconds()
	}
	return r.last
}
