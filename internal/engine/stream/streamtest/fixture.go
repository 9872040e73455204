// Package streamtest is the conformance suite of package stream: every adapter passes Run. Its
// subtests are named after the sentences of the contract.
package streamtest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// Clock is the time of an adapter.
type Clock interface {
	Now() time.Time
	// Advance returns when the clock shows so much more.
	Advance(d time.Duration)
}

// NewClock returns a clock that stands at some moment and moves only by Advance.
func NewClock() Clock { return &standing{now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)} }

type standing struct {
	mu  sync.Mutex
	now time.Time
}

func (c *standing) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *standing) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Fixture is an empty stream of an adapter under test. The zero value of the fields from Levels on
// is that of an adapter which does at once what it does.
type Fixture struct {
	DB        *sqldb.DB
	Publisher stream.Publisher
	Source    stream.Source
	Dead      stream.DeadLetters
	Clock     Clock
	// Levels are those of the adapter (stream.Levels).
	Levels []stream.Level
	// Slack is how late a retry may be, and more than a Pass takes.
	Slack time.Duration
	// Long is a time after which nothing more comes (24 h).
	Long time.Duration
	// Quiet returns when all that was published, replayed or is due is where the next Poll finds
	// it, and all that has died is in the list.
	Quiet func(t testing.TB)
	// Shared says that sessions of a consumer share its records.
	Shared bool

	workers map[string]*Worker
}

func (f *Fixture) levels() []stream.Level {
	if f.Levels == nil {
		return stream.Levels()
	}
	return f.Levels
}

// almost moves the clock to shortly before what waits on a level is due, and then rest to shortly
// after.
func (f *Fixture) almost(level int) {
	f.Clock.Advance(f.levels()[level].Delay - f.Slack - time.Nanosecond)
}
func (f *Fixture) rest() { f.Clock.Advance(f.Slack + 2*time.Millisecond) }

// after moves the clock to when what waits on a level is due.
func (f *Fixture) after(level int) { f.Clock.Advance(f.levels()[level].Delay + f.Slack) }

// long moves the clock by a time after which nothing more comes.
func (f *Fixture) long() { f.Clock.Advance(cmp.Or(f.Long, 24*time.Hour)) }

func (f *Fixture) quiet(t testing.TB) {
	t.Helper()
	if f.Quiet != nil {
		f.Quiet(t)
	}
}

// Account is the key of records whose key does not matter.
var Account = drive.NewID[drive.AccountID]()

// Publish publishes one record for each subject, all in one transaction.
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

// Records makes one record for each subject.
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

// Worker is a consumer that remembers what it was handed and answers as it is told.
type Worker struct {
	*stream.Runner
	Answer func(stream.Record) error // nil: success

	f       *Fixture
	session stream.Session // the last one
	closed  bool           // Poll returns nothing
	mu      sync.Mutex
	Got     []stream.Record
}

// Work makes a consumer of TopicUploads. A second one of the same name is what runs after a crash
// of the first.
func (f *Fixture) Work(name string, adjust ...func(*stream.Consumer)) *Worker {
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
	w.Runner = stream.NewRunner(tap{f.Source, w}, c, stream.Options{
		Now: f.Clock.Now, Levels: f.Levels, Log: slog.New(slog.DiscardHandler),
		SettleTime: 2 * time.Minute, // on a busy machine a step is slow, and a test takes a failed one for a fault
	})
	return w
}

// tap remembers the session of a worker.
type tap struct {
	stream.Source
	w *Worker
}

func (s tap) Open(ctx context.Context, sub stream.Subscription) (stream.Session, error) {
	session, err := s.Source.Open(ctx, sub)
	s.w.session = session
	if err != nil || !s.w.closed {
		return session, err
	}
	door := &door{Session: session, w: s.w}
	if sharer, ok := session.(stream.Sharer); ok {
		return sharedDoor{door, sharer}, nil
	}
	return door, nil
}

// door is a session that returns nothing while its worker is closed.
type door struct {
	stream.Session
	w *Worker
}

func (d *door) Poll(ctx context.Context, limit int) ([]stream.Delivery, time.Time, error) {
	if d.w.closed {
		return nil, time.Time{}, nil
	}
	return d.Session.Poll(ctx, limit)
}

type sharedDoor struct {
	*door
	stream.Sharer
}

// crash ends the worker's session, which settles nothing.
func (w *Worker) crash() {
	if w.session != nil {
		_ = w.session.Close()
	}
}

func (w *Worker) handle(_ context.Context, r stream.Record) error {
	w.mu.Lock()
	w.Got = append(w.Got, r)
	w.mu.Unlock()
	if w.Answer == nil {
		return nil
	}
	return w.Answer(r)
}

// Pass runs the consumer until there is nothing more to do now and returns the subjects that it was
// handed.
func (w *Worker) Pass(t testing.TB) []string {
	t.Helper()
	w.Got = nil
	w.drain(t)
	if w.f.Quiet != nil {
		w.f.Quiet(t)
		w.drain(t)
		w.f.Quiet(t) // what failed is where it belongs
	}
	return w.Subjects()
}

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

// Ready lets the consumer find what was published, without handing it over.
func (w *Worker) Ready(t testing.TB) {
	t.Helper()
	if w.f.Quiet == nil {
		return
	}
	if w.session == nil { // a session that is slow to be polled has found something by then
		w.closed = true
		if _, err := w.RunOnce(t.Context()); err != nil {
			t.Fatalf("consume: %v", err)
		}
		w.closed = false
	}
	w.f.Quiet(t)
}

// Subjects returns the subjects of what was handed over since the last Pass began.
func (w *Worker) Subjects() []string {
	var subjects []string
	for _, r := range w.Got {
		subjects = append(subjects, r.Subject)
	}
	return subjects
}

// settleNow makes every ack durable at once.
func settleNow(c *stream.Consumer) { c.Batch = 1 }

func failing(subject string) func(stream.Record) error {
	return func(r stream.Record) error {
		if r.Subject == subject {
			return fmt.Errorf("cannot do %s", subject)
		}
		return nil
	}
}
