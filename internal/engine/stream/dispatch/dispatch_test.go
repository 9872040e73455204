package dispatch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/dispatch"
	"example.org/smartdrive/internal/engine/timer"
)

// sent records the sent records.
type sent struct {
	mu      sync.Mutex
	records []stream.Record
	err     error
}

func (s *sent) Send(_ context.Context, records ...stream.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.records = append(s.records, records...)
	}
	return s.err
}

// armed records the armed timers.
type armed struct {
	entries []timer.Entry
	err     error
}

func (a *armed) Arm(_ context.Context, entries ...timer.Entry) error {
	a.entries = append(a.entries, entries...)
	return a.err
}

var begin = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// firedTimer returns a timer of 30 s that is due at begin.
func firedTimer(kind timer.Kind) timer.Fired {
	return timer.Fired{
		Key: timer.Key{Kind: kind, ID: drive.NewID[[16]byte]()}, Gen: 7, Account: drive.NewID[drive.AccountID](),
		First: drive.TimeOf(begin.Add(-time.Minute)), Last: drive.TimeOf(begin.Add(-30 * time.Second)), Due: drive.TimeOf(begin),
		Delivery: 1, Token: 1<<63 + 5,
	}
}

func TestATimerArrivesAsItFired(t *testing.T) {
	t.Parallel()
	for kind, topic := range map[timer.Kind]stream.Topic{timer.Park: stream.TopicPark, timer.Abandon: stream.TopicReclaim} {
		var out sent
		var got timer.Fired
		var steps []timer.Step
		d := dispatch.New(dispatch.Options{
			Sender:   &out,
			Handlers: map[timer.Kind]timer.Handler{kind: func(_ context.Context, f timer.Fired) error { got = f; return nil }},
			OnTrace: func(s timer.Trace) {
				steps = append(steps, s.Step)
			},
		})
		f := firedTimer(kind)
		for range 2 {
			if err := d.Publish(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		f.Token++
		if err := d.Publish(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		r := out.records
		if r[0].Topic != topic || r[0].Key != f.Account || r[0].ID != r[1].ID || r[0].ID == r[2].ID {
			t.Errorf("records %+v", r)
		}
		if err := d.Apply(t.Context(), r[2]); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f, got); diff != "" {
			t.Error(diff)
		}
		want := []timer.Step{timer.Published, timer.Published, timer.Published, timer.Consumed, timer.Applied}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Error(diff)
		}
	}
}

func TestUnpublishedTimerIsFiredAgain(t *testing.T) {
	t.Parallel()
	d := dispatch.New(dispatch.Options{Sender: &sent{err: drive.Fail(drive.Unavailable)}})
	if err := d.Publish(t.Context(), firedTimer(timer.Park)); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("error %v", err)
	}
}

func TestOutcomesOfApply(t *testing.T) {
	t.Parallel()
	f := firedTimer(timer.Park)
	r, err := dispatch.Record(f)
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no")
	for name, c := range map[string]struct {
		answer error
		arm    error
		want   error
		armed  []timer.Entry
	}{
		"done":        {},
		"failed":      {answer: failed, want: failed},
		"unavailable": {answer: drive.Fail(drive.Unavailable), want: drive.Fail(drive.Unavailable)},
		"later, within the idle time": {
			answer: timer.Later(10 * time.Second),
			armed: []timer.Entry{{
				Key: f.Key, Gen: 7, Account: f.Account, Idle: 30 * time.Second, Last: drive.TimeOf(begin.Add(-20 * time.Second)),
			}},
		},
		"later than the idle time": {
			answer: timer.Later(time.Hour),
			armed:  []timer.Entry{{Key: f.Key, Gen: 7, Account: f.Account, Idle: time.Hour}},
		},
		"later, and the queue is away": {
			answer: timer.Later(time.Hour), arm: drive.Fail(drive.Unavailable), want: drive.Fail(drive.Unavailable),
			armed: []timer.Entry{{Key: f.Key, Gen: 7, Account: f.Account, Idle: time.Hour}},
		},
	} {
		timers := &armed{err: c.arm}
		d := dispatch.New(dispatch.Options{
			Handlers: map[timer.Kind]timer.Handler{timer.Park: func(context.Context, timer.Fired) error { return c.answer }},
			Timers:   timers, Now: func() time.Time { return begin },
		})
		err := d.Apply(t.Context(), r)
		if (err == nil) != (c.want == nil) || drive.KindOf(err) != drive.KindOf(c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		if diff := cmp.Diff(c.armed, timers.entries); diff != "" {
			t.Errorf("%s: armed (-want +got):\n%s", name, diff)
		}
	}
}

func TestTimerWithoutHandlerIsArmedAgain(t *testing.T) {
	t.Parallel()
	f := firedTimer(timer.Unlink)
	r, err := dispatch.Record(f)
	if err != nil {
		t.Fatal(err)
	}
	var timers armed
	if err := dispatch.New(dispatch.Options{Timers: &timers}).Apply(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]timer.Entry{{Key: f.Key, Gen: f.Gen, Account: f.Account}}, timers.entries); diff != "" {
		t.Error(diff)
	}
}

// TestOverrunningHandlerFails: the error of a cancelled handler looks like an outage, but
// counts as a failure.
func TestOverrunningHandlerFails(t *testing.T) {
	t.Parallel()
	r, err := dispatch.Record(firedTimer(timer.Abandon))
	if err != nil {
		t.Fatal(err)
	}
	d := dispatch.New(dispatch.Options{
		HandlerTimeout: time.Millisecond,
		Handlers: map[timer.Kind]timer.Handler{timer.Abandon: func(ctx context.Context, _ timer.Fired) error {
			<-ctx.Done()
			return drive.Wrap(ctx.Err(), drive.Unavailable)
		}},
	})
	if err := d.Apply(t.Context(), r); !drive.IsKind(err, drive.Internal) {
		t.Errorf("error %v", err)
	}
	stopping, stop := context.WithCancel(t.Context())
	stop()
	if err := d.Apply(stopping, r); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("while it stops: %v", err)
	}
}

func TestInvalidTimerRecordFails(t *testing.T) {
	t.Parallel()
	r, err := dispatch.Record(firedTimer(timer.Park))
	if err != nil {
		t.Fatal(err)
	}
	other, broken := r, r
	other.Subject = firedTimer(timer.Park).Key.String()
	broken.Data = []byte(`{"Key":"park"}`)
	for _, r := range []stream.Record{other, broken} {
		if err := dispatch.New(dispatch.Options{}).Apply(t.Context(), r); err == nil || drive.IsKind(err, drive.Unavailable) {
			t.Errorf("error %v", err)
		}
	}
}
