package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/timer"
)

// ConsumerName is the name of the consumers. Dead timers of the engine have the same consumer name,
// so that a replay works after switching between broker and engine.
const ConsumerName = "timers"

// Armer arms timers; *timer.Engine implements it.
type Armer interface {
	// Arm arms entries, or keeps them to be armed later if the queue does not answer.
	Arm(ctx context.Context, entries ...timer.Entry) error
}

// Options configure New. Publishing requires Sender; consuming requires Handlers and Timers. The
// zero value of every other field means its default.
type Options struct {
	Sender   stream.Sender
	Handlers map[timer.Kind]timer.Handler // by kind
	Timers   Armer
	// HandlerTimeout bounds the duration of a handler (default 5 min).
	HandlerTimeout time.Duration
	// Parallel bounds the handlers per topic and consumer (default 16), Reclaims the reclaims of
	// one account among them (default 2).
	Parallel, Reclaims int
	// OnTrace receives every step and must return quickly.
	OnTrace func(t timer.Trace)
	Now     func() time.Time // default time.Now
}

const (
	defaultLimit    = 5 * time.Minute // of Options.HandlerTimeout
	defaultParallel = 16              // of Options.Parallel
	defaultReclaims = 2               // of Options.Reclaims
	parksPerAccount = 4               // parks of one account at a time: they wait for one row
	// sendTime bounds the time for sending a record. It ends long before the lease, because
	// exceeding the lease would consume an attempt.
	sendTime = 30 * time.Second
	// reclaimWindow is the number of reclaims of one account that can wait in a consumer without
	// delaying other accounts.
	reclaimWindow = 2048
)

// Dispatch publishes fired timers and handles the published ones.
type Dispatch struct{ opt Options }

// New returns a Dispatch. Limits that are not positive and nil functions get their defaults; it
// starts nothing.
func New(opt Options) *Dispatch {
	if opt.HandlerTimeout <= 0 {
		opt.HandlerTimeout = defaultLimit
	}
	if opt.Parallel <= 0 {
		opt.Parallel = defaultParallel
	}
	if opt.Reclaims <= 0 {
		opt.Reclaims = defaultReclaims
	}
	if opt.OnTrace == nil {
		opt.OnTrace = func(timer.Trace) {}
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Dispatch{opt}
}

// Publish is the timer.Handler of a scheduler. It returns nil when the record of the timer is
// durable, Unavailable if the broker is not reachable. Concurrent calls share round trips to the
// broker, so the engine's Concurrency for these kinds should be some hundreds.
func (d *Dispatch) Publish(ctx context.Context, f timer.Fired) error {
	began := d.opt.Now()
	r, err := Record(f)
	if err != nil {
		return err
	}
	own, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := d.opt.Sender.Send(own, r); err != nil {
		return fmt.Errorf("publish timer %s: %w", f.Key, err)
	}
	d.trace(f, timer.Published, began, nil)
	return nil
}

// trace reports a step to Options.OnTrace.
func (d *Dispatch) trace(f timer.Fired, step timer.Step, began time.Time, err error) {
	d.opt.OnTrace(timer.Trace{Fired: f, Step: step, Began: began, At: d.opt.Now(), Err: err})
}

// namespace is the UUID namespace of the ids of these records: a random UUID.
var namespace = uuid.MustParse("5b8cf1a6-7b8e-4c3c-9d0a-3a0f6f1c2d47")

// Record returns the record of a fired timer. Its id depends only on key, gen and token.
func Record(f timer.Fired) (stream.Record, error) {
	topic, typ := stream.TopicReclaim, stream.ReclaimDue
	if f.Key.Kind == timer.Park {
		topic, typ = stream.TopicPark, stream.ParkDue
	}
	r, err := stream.New(topic, typ, f.Account, f.Key.String(), f)
	if err != nil {
		return stream.Record{}, err
	}
	name := f.Key.String() + " " + strconv.FormatInt(f.Gen, 10) + " " + strconv.FormatUint(f.Token, 10)
	r.ID = stream.RecordID(uuid.NewSHA1(namespace, []byte(name)))
	return r, nil
}

// Consumers returns the consumers of the two topics. Every worker runs both; the broker distributes
// the accounts.
func (d *Dispatch) Consumers() []stream.Consumer {
	return []stream.Consumer{
		{Name: ConsumerName, Topic: stream.TopicPark, Handle: d.Apply, Parallel: d.opt.Parallel, PerKey: parksPerAccount},
		{
			Name: ConsumerName, Topic: stream.TopicReclaim, Handle: d.Apply, Parallel: d.opt.Parallel, PerKey: d.opt.Reclaims,
			Window: reclaimWindow,
		},
	}
}

// Subscriptions returns the subscriptions of the consumers, to create their topics in advance.
func Subscriptions() []stream.Subscription {
	return []stream.Subscription{{Consumer: ConsumerName, Topic: stream.TopicPark}, {Consumer: ConsumerName, Topic: stream.TopicReclaim}}
}

// Apply runs the handler of the fired timer in a record. It arms the timer again if this process
// has no handler for it, or if the handler returned Later. It returns the error of the handler or
// of arming, and an error for a record that is no timer.
func (d *Dispatch) Apply(ctx context.Context, r stream.Record) error {
	f, err := decodeFired(r)
	if err != nil {
		return err
	}
	handle := d.opt.Handlers[f.Key.Kind]
	if handle == nil { // dead letter of an engine, replayed here: the engine must fire it
		return d.arm(ctx, timer.Entry{Key: f.Key, Gen: f.Gen, Account: f.Account})
	}
	d.trace(f, timer.Consumed, r.Time.Std(), nil)
	began := d.opt.Now()
	err = d.call(ctx, handle, f)
	wait, later := timer.LaterDelay(err)
	switch {
	case err == nil:
		d.trace(f, timer.Applied, began, nil)
		return nil
	case later:
		if err := d.arm(ctx, d.rearmEntry(f, wait)); err != nil {
			return err
		}
		d.trace(f, timer.Snoozed, began, nil)
		return nil
	}
	if drive.IsKind(err, drive.Unavailable, drive.Stopping) {
		d.trace(f, timer.Waited, began, err)
	} else {
		d.trace(f, timer.Failed, began, err)
	}
	return err
}

// call runs the handler, limited to Options.HandlerTimeout. Exceeding the limit gives an Internal
// error.
func (d *Dispatch) call(ctx context.Context, handle timer.Handler, f timer.Fired) error {
	own, cancel := context.WithTimeout(ctx, d.opt.HandlerTimeout)
	defer cancel()
	err := handle(own, f)
	if _, later := timer.LaterDelay(err); err != nil && !later && own.Err() != nil && ctx.Err() == nil {
		return drive.Wrap(fmt.Errorf("timer %s took longer than %v: %w", f.Key, d.opt.HandlerTimeout, err), drive.Internal)
	}
	return err
}

// rearmEntry returns the entry that makes the timer due after wait. It keeps the idle time, so that
// activity delays the timer as before, and sets last accordingly. If wait is longer than the idle
// time, wait becomes the idle time.
func (d *Dispatch) rearmEntry(f timer.Fired, wait time.Duration) timer.Entry {
	e := timer.Entry{Key: f.Key, Gen: f.Gen, Account: f.Account, Idle: wait}
	if idle := f.Due.Sub(f.Last); idle > wait {
		e.Idle, e.Last = idle, drive.TimeOf(d.opt.Now().Add(wait-idle))
	}
	return e
}

// arm arms a timer again. If the queue is unreachable, the error is Unavailable and the consumer
// pauses.
func (d *Dispatch) arm(ctx context.Context, e timer.Entry) error {
	if err := d.opt.Timers.Arm(ctx, e); err != nil {
		return fmt.Errorf("arm timer %s again: %w", e.Key, err)
	}
	return nil
}

// decodeFired decodes the fired timer of a record. It fails if the data is not JSON of a
// timer.Fired or its key is not the subject of the record; a retry does not help then.
func decodeFired(r stream.Record) (timer.Fired, error) {
	var f timer.Fired
	if err := json.Unmarshal(r.Data, &f); err != nil {
		return timer.Fired{}, fmt.Errorf("decode fired timer %s: %w", r.Subject, err)
	}
	if f.Key.String() != r.Subject {
		return timer.Fired{}, fmt.Errorf("record of timer %s holds timer %s", r.Subject, f.Key)
	}
	return f, nil
}
