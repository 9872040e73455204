package app

import (
	"context"
	"log/slog"
	"strconv"

	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/engine/trace"
	"smartdrive/internal/head/rest"
)

// ways keep the way of each timer that fires, and show it (D7).
type ways struct {
	log      *slog.Logger
	recorder *trace.Recorder
}

func newWays(g *ground) *ways {
	opt := trace.Options{DB: g.db, Instance: strconv.FormatInt(g.Generation, 10), Log: g.log}
	if g.cfg.OTLP != nil {
		opt.Export = &trace.OTLP{URL: g.cfg.OTLP.String(), Version: telemetry.ReadBuild().Version}
	}
	return &ways{log: g.log, recorder: trace.New(opt)}
}

// traced keeps a step, and shows it in the log.
func (w *ways) traced(t timer.Trace) {
	w.recorder.Note(t)
	w.log.Debug("timer on its way", "step", string(t.Step), "timer", t.Key, "gen", t.Gen, "due", t.Due, "late", t.At.Sub(t.Due.Std()))
}

// stepsOf is what the API shows of a timer's way.
func (w *ways) stepsOf(ctx context.Context, key timer.Key) ([]rest.TimerStep, error) {
	steps, err := w.recorder.Find(ctx, key)
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

// observe shows what became of the steps.
func (w *ways) observe(m *telemetry.Metrics) {
	c := w.recorder.Counters()
	counts(m, "trace_steps_written_total", "Steps of timers that were written down.", &c.Written)
	counts(m, "trace_steps_dropped_total", "Steps of timers that were not written down: too many waited, or the database was away.", &c.Dropped)
	counts(m, "trace_steps_exported_total", "Steps of timers that the collector of traces (--otlp) has taken.", &c.Exported)
	counts(m, "trace_steps_lost_total", "Steps of timers that the collector of traces has not taken.", &c.Lost)
}
