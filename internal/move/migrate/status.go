package migrate

import (
	"context"
	"sync"
	"time"
)

// Status looks at everything. What cannot be asked is left out, and the gate says why.
func (m *Migration) Status(ctx context.Context) (Status, error) {
	if err := m.Hear(ctx); err != nil {
		return Status{}, err
	}
	v := m.known()
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
	if v.near == nil {
		s.Gate = []Gate{{Name: "switch", Detail: "a switch is under way"}}
		return s, nil
	}
	return s, m.complete(ctx, v, &s)
}

func (m *Migration) complete(ctx context.Context, v *view, s *Status) (err error) {
	if v.Phase < NewOnly { // what is written down later, until the triggers are gone, is not brought
		if s.Lag, err = countChanges(ctx, v.near.DB); err != nil {
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
		s.Checksum = c.shown()
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
	s.Old, err = m.left.old(ctx, v)
	return err
}

func (c checksum) shown() *Checksum {
	out := &Checksum{State: c.state, Equal: c.state == "done" && c.unequal == 0, Rows: c.rows, Unequal: c.unequal, Digest: c.digest, At: c.ended}
	if c.state != "done" {
		out.At = c.begun
	} else if took := c.ended.Sub(c.begun).Seconds(); took > 0 {
		out.Rate = float64(c.rows) / took
	}
	return out
}

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

func (k *gatekeeper) rowsProgress(ctx context.Context, v *view) (RowsProgress, error) {
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

func (c *counters) reads() Reads {
	return Reads{New: c.fromNew.Load(), Fallback: c.fallback.Load(), Compared: c.compared.Load(), Skipped: c.skipped.Load()}
}

func (c *counters) writes() Writes {
	return Writes{Second: c.second.Load(), Deferred: c.deferred.Load(), Waited: c.waits.Load(), Pause: c.pause.Load()}
}

// waited notes that a write met a switch at that moment; zero: it did not.
func (c *counters) waited(since time.Time) {
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

// meter counts rows over the last seconds.
type meter struct {
	mu    sync.Mutex
	since time.Time
	rows  int64
	last  float64
}

const meterTime = 5 * time.Second

func (r *meter) add(rows int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || time.Since(r.since) > meterTime {
		if took := time.Since(r.since); !r.since.IsZero() && took < 2*meterTime {
			r.last = float64(r.rows) / took.Seconds()
		}
		r.since, r.rows = time.Now(), 0
	}
	r.rows += int64(rows)
}

func (r *meter) perSecond() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || time.Since(r.since) > 2*meterTime {
		return 0
	}
	if took := time.Since(r.since); r.last == 0 && took > 0 {
		return float64(r.rows) / took.Seconds()
	}
	return r.last
}
