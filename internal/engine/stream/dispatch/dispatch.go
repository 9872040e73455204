package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/timer"
)

// Name is the consumer's, which is also that of dead timers where there is no broker: what died
// there and is replayed here, or the other way round, finds its handler.
const Name = "timers"

// Arm arms timers; *timer.Engine does.
type Arm interface {
	Arm(ctx context.Context, entries ...timer.Entry) error
}

// Options configure New. Sender is needed to publish, Handlers and Timers to consume; the zero
// value of every other field is its default.
type Options struct {
	Sender   stream.Sender
	Handlers map[timer.Kind]timer.Handler
	Timers   Arm
	// Limit is how long one handler may take (5 min).
	Limit time.Duration
	// Parallel is how many handlers of each topic run in one consumer (16), Reclaims how many
	// reclaims of one account (2).
	Parallel, Reclaims int
	// Traced is told of every step; it must be quick.
	Traced func(t timer.Trace)
	Now    func() time.Time // default time.Now
}

const (
	defaultLimit    = 5 * time.Minute
	defaultParallel = 16
	defaultReclaims = 2
	parks           = 4 // of one account at a time: they queue for one row
	// sendTime is how long a broker may take for a record. It ends long before the lease of the
	// timer: a handler that overruns that has used up an attempt, and no outage may.
	sendTime = 30 * time.Second
	// reclaimWindow is how many reclaims of one account can wait in a consumer without delaying
	// those of others.
	reclaimWindow = 2048
)

// Dispatch publishes fired timers and applies them.
type Dispatch struct{ opt Options }

// New makes both ends.
func New(opt Options) *Dispatch {
	if opt.Limit <= 0 {
		opt.Limit = defaultLimit
	}
	if opt.Parallel <= 0 {
		opt.Parallel = defaultParallel
	}
	if opt.Reclaims <= 0 {
		opt.Reclaims = defaultReclaims
	}
	if opt.Traced == nil {
		opt.Traced = func(timer.Trace) {}
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Dispatch{opt}
}

// Publish is the timer.Handler of a scheduler: it returns nil when the timer is on its way and need
// not fire again. Many at a time share the round trips of the broker, so the engine's Concurrency
// for these kinds is to be some hundreds.
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

func (d *Dispatch) trace(f timer.Fired, step timer.Step, began time.Time, err error) {
	d.opt.Traced(timer.Trace{Fired: f, Step: step, Began: began, At: d.opt.Now(), Err: err})
}

// namespace of the ids of records that tell of fired timers: a random UUID.
var namespace = uuid.MustParse("5b8cf1a6-7b8e-4c3c-9d0a-3a0f6f1c2d47")

// Record is the record of a fired timer. The same firing always gives the same id.
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

// Consumers are those of the two topics. Each worker runs some of each; the broker deals out the
// accounts.
func (d *Dispatch) Consumers() []stream.Consumer {
	return []stream.Consumer{
		{Name: Name, Topic: stream.TopicPark, Handle: d.Apply, Parallel: d.opt.Parallel, PerKey: parks},
		{
			Name: Name, Topic: stream.TopicReclaim, Handle: d.Apply, Parallel: d.opt.Parallel, PerKey: d.opt.Reclaims,
			Window: reclaimWindow,
		},
	}
}

// Subscriptions are what the consumers read, for who prepares their topics.
func Subscriptions() []stream.Subscription {
	return []stream.Subscription{{Consumer: Name, Topic: stream.TopicPark}, {Consumer: Name, Topic: stream.TopicReclaim}}
}

// Apply hands a fired timer to its handler.
func (d *Dispatch) Apply(ctx context.Context, r stream.Record) error {
	f, err := fired(r)
	if err != nil {
		return err
	}
	handle := d.opt.Handlers[f.Key.Kind]
	if handle == nil { // an engine's own, dead and replayed: it fires there
		return d.arm(ctx, timer.Entry{Key: f.Key, Gen: f.Gen, Account: f.Account})
	}
	d.trace(f, timer.Consumed, r.Time.Std(), nil)
	began := d.opt.Now()
	err = d.call(ctx, handle, f)
	wait, later := timer.IsLater(err)
	switch {
	case err == nil:
		d.trace(f, timer.Applied, began, nil)
		return nil
	case later:
		if err := d.arm(ctx, d.again(f, wait)); err != nil {
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

func (d *Dispatch) call(ctx context.Context, handle timer.Handler, f timer.Fired) error {
	own, cancel := context.WithTimeout(ctx, d.opt.Limit)
	defer cancel()
	err := handle(own, f)
	if _, later := timer.IsLater(err); err != nil && !later && own.Err() != nil && ctx.Err() == nil {
		return drive.Wrap(fmt.Errorf("timer %s took longer than %v: %w", f.Key, d.opt.Limit, err), drive.Internal)
	}
	return err
}

// again is the timer of a handler that wants to look again after wait. It keeps its idle time, so
// that activity pushes it back by as much as before: last is put where the timer is due after wait.
// A longer wait than the idle time becomes one.
func (d *Dispatch) again(f timer.Fired, wait time.Duration) timer.Entry {
	e := timer.Entry{Key: f.Key, Gen: f.Gen, Account: f.Account, Idle: wait}
	if idle := f.Due.Sub(f.Last); idle > wait {
		e.Idle, e.Last = idle, drive.TimeOf(d.opt.Now().Add(wait-idle))
	}
	return e
}

// arm is not the record's fault when it fails: a queue that cannot be reached is Unavailable, and
// the consumer waits for it.
func (d *Dispatch) arm(ctx context.Context, e timer.Entry) error {
	if err := d.opt.Timers.Arm(ctx, e); err != nil {
		return fmt.Errorf("arm timer %s again: %w", e.Key, err)
	}
	return nil
}

func fired(r stream.Record) (timer.Fired, error) {
	var f timer.Fired
	if err := json.Unmarshal(r.Data, &f); err != nil {
		return timer.Fired{}, fmt.Errorf("decode fired timer %s: %w", r.Subject, err)
	}
	if f.Key.String() != r.Subject {
		return timer.Fired{}, fmt.Errorf("record of timer %s holds timer %s", r.Subject, f.Key)
	}
	return f, nil
}
