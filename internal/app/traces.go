package app

import (
	"context"
	"log/slog"
	"strconv"

	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/trace"
	"example.org/smartdrive/internal/head/rest"
)

// traces records the steps of each fired timer and shows them (D7).
type traces struct {
	log      *slog.Logger
	recorder *trace.Recorder
}

// newTraces returns the recorder of timer steps. It exports them only if an OTLP address is
// configured.
func newTraces(p *platform) *traces {
	opt := trace.Options{DB: p.db, Instance: strconv.FormatInt(p.Generation, 10), Log: p.log}
	if p.cfg.OTLP != nil {
		opt.Export = &trace.OTLP{URL: p.cfg.OTLP.String(), Version: telemetry.ReadBuild().Version}
	}
	return &traces{log: p.log, recorder: trace.New(opt)}
}

// record stores a step and logs it at debug level.
func (t *traces) record(s timer.Trace) {
	t.recorder.Record(s)
	t.log.Debug("timer step", "step", string(s.Step), "timer", s.Key, "gen", s.Gen, "due", s.Due, "late", s.At.Sub(s.Due.Std()))
}

// stepsOf returns the recorded steps of a timer for the API, empty for an unknown key. It fails
// with an error of the database.
func (t *traces) stepsOf(ctx context.Context, key timer.Key) ([]rest.TimerStep, error) {
	steps, err := t.recorder.Find(ctx, key)
	if err != nil {
		return nil, err
	}
	shown := make([]rest.TimerStep, len(steps))
	for i, s := range steps {
		shown[i] = rest.TimerStep{
			Gen: s.Gen, Step: string(s.Step), Began: s.Began, At: s.At, Delivery: s.Delivery, Instance: s.Instance, Reason: s.Reason,
		}
		if s.Step == timer.Started {
			shown[i].PushBacks, shown[i].LastPushBack = &s.Queued.PushBacks, s.Queued.LastPushBack
			shown[i].Shard, shown[i].Slice = s.Queued.Shard, s.Queued.Slice
		}
	}
	return shown, nil
}

// observe registers counters of recorded steps.
func (t *traces) observe(m *telemetry.Metrics) {
	c := t.recorder.Counters()
	counts(m, "trace_steps_written_total", "Steps of timers that were written down.", &c.Written)
	counts(m, "trace_steps_dropped_total", "Steps of timers that were not written down: too many waited, or the database was away.", &c.Dropped)
	counts(m, "trace_steps_exported_total", "Steps of timers that the collector of traces (--otlp) has taken.", &c.Exported)
	counts(m, "trace_steps_lost_total", "Steps of timers that the collector of traces has not taken.", &c.Lost)
}
