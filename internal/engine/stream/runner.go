package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Consumer is somebody who acts on the records of a topic.
type Consumer struct {
	Name  string // names the cursor: it must stay the same over releases
	Topic Topic
	// Handle acts on one record. It is idempotent by Record.Source + Record.ID; see the package
	// comment for what its errors mean. It runs in the consumer's loop, one record at a time,
	// unless Parallel says otherwise.
	Handle func(ctx context.Context, r Record) error
	// Start is used when the consumer has no cursor yet.
	Start Start
	// Batch is how many records are read at once and how many acks are gathered at most. Default
	// 100.
	Batch int
	// AckAge is how long an ack may wait for others. Default 1 s.
	AckAge time.Duration
	// Parallel is how many records are handled at a time. Default 1: all in their order.
	Parallel int
	// PerKey is how many of them may be of one key. Default 1: those of a key in their order.
	PerKey int
	// Window is how many records are held that are not settled, where Parallel is more than 1: the
	// records of a busy key delay nobody else's within it. When it is full of them they are put
	// off. A crash repeats as many. Default 1,024.
	Window int
}

// Options configure a Runner. The zero value of each field is its default.
type Options struct {
	Now        func() time.Time // default time.Now
	Levels     []Level          // what the Source has; default Levels()
	SettleTime time.Duration    // what a step of the cursor may take, the wait for the writer included; default 5 s
	Log        *slog.Logger     // default slog.Default
}

// Counters tell what a Runner did since it was made.
type Counters struct {
	Handled atomic.Int64 // records whose handler succeeded
	Retried atomic.Int64 // failures that sent a record to a level
	Dead    atomic.Int64 // records that became dead letters
	Panics  atomic.Int64 // of the handler; each is also Retried or Dead
	Pauses  atomic.Int64 // times a record was held because something was unavailable
	PutOff  atomic.Int64 // records put off because their key was busy
	Moved   atomic.Int64 // records held that another session took over
}

// Stats tell what one RunOnce did.
type Stats struct {
	Handled, Retried, Dead int
	More                   bool      // there is probably more to do at once
	Next                   time.Time // when there is something to do again without being woken; zero: unknown
}

// Runner is the loop of one consumer.
type Runner struct {
	source   Source
	consumer Consumer
	now      func() time.Time
	levels   []Level
	settling time.Duration // what a step of the cursor may take
	log      *slog.Logger
	counters Counters

	session Session // nil: to be opened
	window  window
	retryAt time.Time // as Poll said
	more    bool      // Poll probably left something
	blocked time.Time // since when the window is full of records that wait for their key
}

const (
	defaultBatch  = 100
	defaultAckAge = time.Second
	defaultWindow = 1024
	settleTime    = 5 * time.Second
)

// NewRunner makes the loop of a consumer. Where the sessions of a Source do not share, only one may
// run for a consumer and topic at a time.
func NewRunner(source Source, c Consumer, opt Options) *Runner {
	if c.Batch <= 0 {
		c.Batch = defaultBatch
	}
	if c.AckAge <= 0 {
		c.AckAge = defaultAckAge
	}
	if c.Window <= 0 {
		c.Window = defaultWindow
	}
	if c.Parallel, c.PerKey = max(c.Parallel, 1), max(c.PerKey, 1); c.Parallel > 1 {
		c.Batch = min(c.Batch, max(1, c.Window/2)) // acks must not fill the window
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Levels == nil {
		opt.Levels = Levels()
	}
	if opt.SettleTime <= 0 {
		opt.SettleTime = settleTime
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	log := opt.Log.With("consumer", c.Name, "topic", string(c.Topic))
	return &Runner{source: source, consumer: c, now: opt.Now, levels: opt.Levels, settling: opt.SettleTime, log: log}
}

// Counters returns the counters.
func (r *Runner) Counters() *Counters { return &r.counters }

// Consumer returns the name and the topic.
func (r *Runner) Consumer() (name string, topic Topic) { return r.consumer.Name, r.consumer.Topic }

// RunOnce hands over what can be handed over now and settles what is due to be settled. An error is
// never about a record: it is an outage, and the caller waits before it tries again. Not safe for
// concurrent use.
func (r *Runner) RunOnce(ctx context.Context) (Stats, error) {
	var stats Stats
	if err := r.fill(ctx); err != nil {
		return stats, err
	}
	var outage error
	if r.consumer.Parallel > 1 {
		outage = r.handOverParallel(ctx, &stats)
	} else {
		outage = r.handOver(ctx, &stats)
	}
	if err := r.settleDue(ctx); err != nil {
		return stats, errors.Join(outage, err)
	}
	stats.More = r.more && outage == nil
	stats.Next = r.next()
	return stats, outage
}

// fill opens the session and polls, unless there is enough in hand.
func (r *Runner) fill(ctx context.Context) error {
	if r.session == nil {
		sub := Subscription{Consumer: r.consumer.Name, Topic: r.consumer.Topic, Start: r.consumer.Start}
		session, err := r.source.Open(ctx, sub)
		if err != nil {
			return fmt.Errorf("open a session: %w", err)
		}
		r.session = session
	}
	r.forgetMoved()
	limit := r.consumer.Batch
	if r.consumer.Parallel > 1 {
		limit = min(limit, r.room())
	} else if r.window.count(waiting) > 0 {
		limit = 0
	}
	if limit <= 0 {
		return nil
	}
	batch, next, err := r.session.Poll(ctx, limit)
	if err != nil {
		return errors.Join(fmt.Errorf("poll: %w", err), r.abandon())
	}
	r.window.add(batch)
	r.retryAt, r.more = next, len(batch) >= limit
	return nil
}

// forgetMoved drops what another session hands over now.
func (r *Runner) forgetMoved() {
	shared, ok := r.session.(Sharer)
	if !ok {
		return
	}
	r.window.remove(func(it *item) bool {
		moved := it.state == waiting && !shared.Holds(it.Delivery)
		if moved {
			r.counters.Moved.Add(1)
		}
		return moved
	})
}

func (r *Runner) handOver(ctx context.Context, stats *Stats) error {
	for it := r.window.next(1); it != nil; it = r.window.next(1) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("hand over: %w", err)
		}
		r.window.begin(it)
		out, err := r.handle(ctx, it.Delivery)
		if err := r.finish(it, out, err, stats); err != nil {
			return err
		}
		if r.gathered() {
			if err := r.settle(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish notes how the handler of a record ended. Its error is an outage.
func (r *Runner) finish(it *item, out Outcome, err error, stats *Stats) error {
	if err != nil {
		r.counters.Pauses.Add(1)
		r.window.end(it, waiting)
		return err
	}
	it.out, it.since = out, r.now()
	r.window.end(it, done)
	stats.count(out.Verdict)
	return nil
}

func (s *Stats) count(v Verdict) {
	switch v {
	case Ack:
		s.Handled++
	case Delay:
		s.Retried++
	case Bury:
		s.Dead++
	}
}
