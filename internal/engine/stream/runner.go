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

// Consumer defines a consumer: the handler for the records of a topic, and its limits.
type Consumer struct {
	Name  string // names the cursor; must stay the same across releases
	Topic Topic
	// Handle acts on one record. It must be idempotent by Record.Source + Record.ID; the package
	// comment explains its errors. Handle runs for one record at a time unless Parallel is greater
	// than 1.
	Handle func(ctx context.Context, r Record) error
	// Start is the initial position of a new consumer.
	Start Start
	// Batch limits the records per poll and the unsettled acks. Default 100.
	Batch int
	// AckAge is the time that an ack may wait to be settled with others. Default 1 s.
	AckAge time.Duration
	// Parallel is the number of records handled at once. Default 1: all in order.
	Parallel int
	// PerKey is how many of them may have the same key. Default 1: in order within a key.
	PerKey int
	// Window limits the unsettled records if Parallel is greater than 1. Within the window a busy
	// key does not delay other keys. When records of busy keys fill the window, they are postponed.
	// A crash repeats up to Window records. Default 1,024.
	Window int
}

// Options configure a Runner. The zero value of each field means its default.
type Options struct {
	Now        func() time.Time // default time.Now
	Levels     []Level          // levels of the Source; default Levels()
	SettleTime time.Duration    // time limit for settling, including the wait for the database's writer; default 5 s
	Log        *slog.Logger     // default slog.Default
}

// Counters counts the work of a Runner since its creation.
type Counters struct {
	Handled   atomic.Int64 // records whose handler succeeded
	Retried   atomic.Int64 // failures after which a record went to a level
	Dead      atomic.Int64 // records that became dead letters
	Panics    atomic.Int64 // panics of the handler; each is also counted as Retried or Dead
	Pauses    atomic.Int64 // deliveries repeated because a dependency was unavailable
	Postponed atomic.Int64 // records postponed because their key was busy
	Moved     atomic.Int64 // records dropped because another session took over their partition
}

// Stats is the result of one RunOnce.
type Stats struct {
	Handled, Retried, Dead int
	More                   bool      // more records are probably available now
	Next                   time.Time // time of the next work without a wake-up; zero: unknown
}

// Runner runs one consumer.
type Runner struct {
	source        Source
	consumer      Consumer
	now           func() time.Time
	levels        []Level       // delay levels of the source
	settleTimeout time.Duration // time limit for settling
	log           *slog.Logger
	counters      Counters

	session      Session   // nil: not open
	window       window    // polled and unsettled records
	retryAt      time.Time // time of the next retry, as returned by Poll
	more         bool      // the last Poll probably left records
	blockedSince time.Time // since when the window is full of records with busy keys; zero: it is not
}

const (
	defaultBatch      = 100             // of Consumer.Batch
	defaultAckAge     = time.Second     // of Consumer.AckAge
	defaultWindow     = 1024            // of Consumer.Window
	defaultSettleTime = 5 * time.Second // of Options.SettleTime
)

// NewRunner returns the Runner of a consumer. If sessions of the Source do not share partitions,
// only one Runner per consumer and topic may run at a time.
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
		opt.SettleTime = defaultSettleTime
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	log := opt.Log.With("consumer", c.Name, "topic", string(c.Topic))
	return &Runner{source: source, consumer: c, now: opt.Now, levels: opt.Levels, settleTimeout: opt.SettleTime, log: log}
}

// Counters returns the live counters.
func (r *Runner) Counters() *Counters { return &r.counters }

// Consumer returns the consumer's name and topic.
func (r *Runner) Consumer() (name string, topic Topic) { return r.consumer.Name, r.consumer.Topic }

// RunOnce polls, calls the handler for the available records, and settles outcomes that are due;
// other acks wait for a later call. An error means an outage, never a failed record; the caller
// must pause before the next call. It is not safe for concurrent use.
func (r *Runner) RunOnce(ctx context.Context) (Stats, error) {
	var stats Stats
	if err := r.fill(ctx); err != nil {
		return stats, err
	}
	var outage error
	if r.consumer.Parallel > 1 {
		outage = r.runParallel(ctx, &stats)
	} else {
		outage = r.runSequential(ctx, &stats)
	}
	if err := r.settleDue(ctx); err != nil {
		return stats, errors.Join(outage, err)
	}
	stats.More = r.more && outage == nil
	stats.Next = r.next()
	return stats, outage
}

// fill opens the session if there is none, and polls for records into the window: as many as have
// room if Parallel, else only if no record waits. If the poll fails, it discards the session and
// returns the error.
func (r *Runner) fill(ctx context.Context) error {
	if r.session == nil {
		sub := Subscription{Consumer: r.consumer.Name, Topic: r.consumer.Topic, Start: r.consumer.Start}
		session, err := r.source.Open(ctx, sub)
		if err != nil {
			return fmt.Errorf("open a session: %w", err)
		}
		r.session = session
	}
	r.dropMoved()
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
		return errors.Join(fmt.Errorf("poll: %w", err), r.discardSession())
	}
	r.window.add(batch)
	r.retryAt, r.more = next, len(batch) >= limit
	return nil
}

// dropMoved drops waiting records whose partition now belongs to another session.
func (r *Runner) dropMoved() {
	shared, ok := r.session.(PartitionSharer)
	if !ok {
		return
	}
	r.window.remove(func(it *item) bool {
		moved := it.state == waiting && !shared.Owns(it.Delivery)
		if moved {
			r.counters.Moved.Add(1)
		}
		return moved
	})
}

// runSequential handles the waiting records one after the other, counts them in stats, and settles
// when enough are handled. At an outage, a failed settle or the end of ctx it returns the error;
// the remaining records stay waiting.
func (r *Runner) runSequential(ctx context.Context, stats *Stats) error {
	for it := r.window.next(1); it != nil; it = r.window.next(1) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("hand over: %w", err)
		}
		r.window.begin(it)
		out, err := r.handle(ctx, it.Delivery)
		if err := r.finish(it, out, err, stats); err != nil {
			return err
		}
		if r.ackBatchReady() {
			if err := r.settle(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish stores the outcome of a handler for the next settle. If err, an outage, is not nil, the
// record waits again instead, and finish returns err.
func (r *Runner) finish(it *item, out Outcome, err error, stats *Stats) error {
	if err != nil {
		r.counters.Pauses.Add(1)
		r.window.end(it, waiting)
		return err
	}
	it.out, it.doneAt = out, r.now()
	r.window.end(it, done)
	stats.count(out.Verdict)
	return nil
}

// count adds one to the field of the verdict.
func (s *Stats) count(v Verdict) {
	switch v {
	case Ack:
		s.Handled++
	case Delay:
		s.Retried++
	case Dead:
		s.Dead++
	}
}
