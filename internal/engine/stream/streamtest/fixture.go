// Package streamtest is the conformance suite of package stream; every adapter must pass Run.
// Subtests are named after sentences of the contract.
package streamtest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Clock is the clock of an adapter under test.
type Clock interface {
	// Now returns the time of the clock, also as the adapter sees it.
	Now() time.Time
	// Advance moves the clock by d and returns when Now shows the new time.
	Advance(d time.Duration)
}

// NewClock returns a clock at a fixed time that moves only by Advance.
func NewClock() Clock { return &manualClock{now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)} }

// manualClock is a clock that moves only by Advance.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the time set by Advance.
func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d.
func (c *manualClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Fixture is an empty stream of an adapter under test. The zero value of the fields from Levels on
// fits an adapter without background work.
type Fixture struct {
	DB        *sqldb.DB
	Publisher stream.Publisher
	Source    stream.Source
	Dead      stream.DeadLetters
	Clock     Clock
	// Levels are the delay levels of the adapter (default stream.Levels).
	Levels []stream.Level
	// Slack bounds the delay of a retry beyond its due time; it exceeds the duration of a Pass.
	Slack time.Duration
	// Long is a time after which no retry is pending (default 24 h).
	Long time.Duration
	// WaitIdle waits until all published, replayed and due records are available to the next Poll,
	// and all dead letters are in the list. Nil: always so.
	WaitIdle func(t testing.TB)
	// Shared says that sessions of a consumer share partitions.
	Shared bool

	workers map[string]*Worker // by consumer
}

// levels returns the delay levels of the adapter.
func (f *Fixture) levels() []stream.Level {
	if f.Levels == nil {
		return stream.Levels()
	}
	return f.Levels
}

// almost moves the clock to just before retries of a level are due; rest then moves it to just
// after.
func (f *Fixture) almost(level int) {
	f.Clock.Advance(f.levels()[level].Delay - f.Slack - time.Nanosecond)
}

// rest moves the clock from just before to just after the due time of almost.
func (f *Fixture) rest() { f.Clock.Advance(f.Slack + 2*time.Millisecond) }

// after moves the clock to the time at which retries of a level are due.
func (f *Fixture) after(level int) { f.Clock.Advance(f.levels()[level].Delay + f.Slack) }

// long moves the clock until no retry is pending.
func (f *Fixture) long() { f.Clock.Advance(cmp.Or(f.Long, 24*time.Hour)) }

// quiet waits, by WaitIdle, until the adapter has nothing to do in the background. It does nothing
// if WaitIdle is nil.
func (f *Fixture) quiet(t testing.TB) {
	t.Helper()
	if f.WaitIdle != nil {
		f.WaitIdle(t)
	}
}

// Account is the key of records whose key does not matter.
var Account = drive.NewID[drive.AccountID]()

// Publish publishes one record per subject in one transaction.
func (f *Fixture) Publish(t testing.TB, key drive.AccountID, subjects ...string) []stream.Record {
	t.Helper()
	records := Records(t, key, subjects...)
	err := f.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return f.Publisher.Append(ctx, tx, records...)
	})
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return records
}

// Records returns one record per subject.
func Records(t testing.TB, key drive.AccountID, subjects ...string) []stream.Record {
	t.Helper()
	records := make([]stream.Record, len(subjects))
	for i, s := range subjects {
		r, err := stream.New(stream.TopicUploads, stream.UploadDone, key, s, map[string]string{"path": "/<" + s + ">"})
		if err != nil {
			t.Fatal(err)
		}
		records[i] = r
	}
	return records
}

// Worker is a consumer that records its deliveries and returns the results of Answer.
type Worker struct {
	*stream.Runner
	Answer func(stream.Record) error // nil: success

	f       *Fixture
	session stream.Session // the latest
	closed  bool           // Poll returns no records
	mu      sync.Mutex
	Got     []stream.Record // records passed to the handler, in order
}

// NewWorker returns a worker for TopicUploads. A second worker of the same name simulates a restart
// after a crash of the first.
func (f *Fixture) NewWorker(name string, adjust ...func(*stream.Consumer)) *Worker {
	w := &Worker{f: f}
	c := stream.Consumer{Name: name, Topic: stream.TopicUploads, Handle: w.handle}
	for _, fn := range adjust {
		fn(&c)
	}
	id := name + " of " + string(c.Topic)
	if first := f.workers[id]; first != nil && f.Shared {
		first.crash()
	}
	if f.workers == nil {
		f.workers = map[string]*Worker{}
	}
	f.workers[id] = w
	w.Runner = stream.NewRunner(recordingSource{f.Source, w}, c, stream.Options{
		Now: f.Clock.Now, Levels: f.Levels, Log: slog.New(slog.DiscardHandler),
		SettleTime: 2 * time.Minute, // on a busy machine settling is slow, and must not look like a fault
	})
	return w
}

// recordingSource is a Source that stores the session in the worker.
type recordingSource struct {
	stream.Source
	w *Worker
}

// Open opens a session, stores it in the worker and gates it if the worker is closed.
func (s recordingSource) Open(ctx context.Context, sub stream.Subscription) (stream.Session, error) {
	session, err := s.Source.Open(ctx, sub)
	s.w.session = session
	if err != nil || !s.w.closed {
		return session, err
	}
	door := &gatedSession{Session: session, w: s.w}
	if sharer, ok := session.(stream.PartitionSharer); ok {
		return sharedGatedSession{door, sharer}, nil
	}
	return door, nil
}

// gatedSession is a session that returns no records while its worker is closed.
type gatedSession struct {
	stream.Session
	w *Worker
}

// Poll polls the wrapped session, and returns no records and no error while the worker is closed.
func (d *gatedSession) Poll(ctx context.Context, limit int) ([]stream.Delivery, time.Time, error) {
	if d.w.closed {
		return nil, time.Time{}, nil
	}
	return d.Session.Poll(ctx, limit)
}

// sharedGatedSession is a gatedSession that shares partitions.
type sharedGatedSession struct {
	*gatedSession
	stream.PartitionSharer
}

// crash closes the worker's session without settling.
func (w *Worker) crash() {
	if w.session != nil {
		_ = w.session.Close()
	}
}

// handle appends the record to w.Got and returns the result of w.Answer, or nil if Answer is nil.
func (w *Worker) handle(_ context.Context, r stream.Record) error {
	w.mu.Lock()
	w.Got = append(w.Got, r)
	w.mu.Unlock()
	if w.Answer == nil {
		return nil
	}
	return w.Answer(r)
}

// Pass runs the consumer until no work is left now, and returns the subjects of the deliveries.
func (w *Worker) Pass(t testing.TB) []string {
	t.Helper()
	w.Got = nil
	w.drain(t)
	if w.f.WaitIdle != nil {
		w.f.WaitIdle(t)
		w.drain(t)
		w.f.WaitIdle(t) // failed records have reached their level or the dead letters
	}
	return w.Subjects()
}

// drain handles records until the consumer reports no more work. It fails the test on an error.
func (w *Worker) drain(t testing.TB) {
	t.Helper()
	for {
		stats, err := w.RunOnce(t.Context())
		if err != nil {
			t.Fatalf("consume: %v", err)
		}
		if !stats.More {
			return
		}
	}
}

// Ready makes the published records available to the consumer without delivering them.
func (w *Worker) Ready(t testing.TB) {
	t.Helper()
	if w.f.WaitIdle == nil {
		return
	}
	if w.session == nil { // by then even a slowly assigned session has its records
		w.closed = true
		if _, err := w.RunOnce(t.Context()); err != nil {
			t.Fatalf("consume: %v", err)
		}
		w.closed = false
	}
	w.f.WaitIdle(t)
}

// Subjects returns the subjects delivered since the last Pass began.
func (w *Worker) Subjects() []string {
	var subjects []string
	for _, r := range w.Got {
		subjects = append(subjects, r.Subject)
	}
	return subjects
}

// settleNow makes the consumer settle every ack immediately.
func settleNow(c *stream.Consumer) { c.Batch = 1 }

// failing returns an Answer that fails the record of the subject.
func failing(subject string) func(stream.Record) error {
	return func(r stream.Record) error {
		if r.Subject == subject {
			return fmt.Errorf("cannot do %s", subject)
		}
		return nil
	}
}
