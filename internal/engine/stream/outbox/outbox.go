// Package outbox is the stream in the project's database: it implements package stream on the
// tables outbox, cursors, deliveries and dead_letters.
//
//	Append ──tx──► outbox ──Poll, by offset──► handler ──ok────► cursors.position
//	                                              └────fails──► deliveries (not_before) ──Poll, when due──► handler
//	                                                                 ▲                └──last level──► dead_letters
//	                                                                 └──────────────── Replay ────────────────┘
//
// Settle makes all results of the handlers durable in one transaction. Reading by offset is safe
// with a single writer: a smaller offset never becomes visible after a greater one. MySQL has
// several writers: see gaps.
package outbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Options configure New. Source is required; the zero value of every other field means its default.
type Options struct {
	Source string           // of every record: "smartdrive/<installation id>"
	Now    func() time.Time // default time.Now
	Log    *slog.Logger     // default slog.Default
	// Relayed says that a relay sends the records to a broker. No consumer reads them here, and
	// Trim deletes sent records.
	Relayed bool
	// GapTime is the time that consumers on MySQL wait for an assigned id whose row is not visible;
	// see gaps. Default 5 s.
	GapTime time.Duration
}

// Outbox publishes records and opens sessions of consumers. It is safe for concurrent use.
type Outbox struct {
	db       *sqldb.DB
	source   string
	relayed  bool // a relay sends the records; consumers do not read them here
	now      func() time.Time
	log      *slog.Logger
	gapTime  time.Duration
	counters Counters

	announced chan struct{} // signals that a record was published or replayed

	mu          sync.Mutex
	sessions    map[*session]struct{}  // open sessions, to be woken
	trimCursors map[stream.Topic]int64 // id at which the last Trim of the topic stopped; 0: at the end
	examine     int                    // normally trimExamine; changed by tests
}

// Counters counts the work of an Outbox since its creation.
type Counters struct {
	Published atomic.Int64 // records whose transaction was committed
	Replayed  atomic.Int64 // dead letters replayed
	Trimmed   atomic.Int64 // records deleted because of their age
}

var (
	_ stream.Publisher   = (*Outbox)(nil)
	_ stream.Source      = (*Outbox)(nil)
	_ stream.DeadLetters = (*Outbox)(nil)
)

// New returns an Outbox on db.
func New(db *sqldb.DB, opt Options) *Outbox {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	opt.GapTime = cmp.Or(opt.GapTime, gapTime)
	return &Outbox{
		gapTime: opt.GapTime,
		db:      db, source: opt.Source, now: opt.Now, log: opt.Log, announced: make(chan struct{}, 1),
		relayed: opt.Relayed, sessions: map[*session]struct{}{}, trimCursors: map[stream.Topic]int64{}, examine: trimExamine,
	}
}

// Counters returns the live counters.
func (o *Outbox) Counters() *Counters { return &o.counters }

// appendRows is the number of records per INSERT: five values each, far below the limit of either
// database.
const appendRows = 100

// Append inserts records in this order; they are published if tx commits (stream.Publisher). A
// repeated id violates a unique key.
func (o *Outbox) Append(ctx context.Context, tx *sqldb.Tx, records ...stream.Record) error {
	for page := range slices.Chunk(records, appendRows) {
		if err := o.appendPage(ctx, tx, page); err != nil {
			return err
		}
	}
	return nil
}

// appendPage inserts up to appendRows records with one statement and wakes their consumers when tx
// commits. It fails if a record is not valid. records must not be empty.
func (o *Outbox) appendPage(ctx context.Context, tx *sqldb.Tx, records []stream.Record) error {
	values := make([]any, 0, 5*len(records))
	for _, r := range records {
		event, err := o.encode(r)
		if err != nil {
			return err
		}
		values = append(values, r.ID, string(r.Topic), keyText(r.Key), event, o.nowMs())
	}
	rows := strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, ?), ", len(records)), ", ")
	_, err := tx.Exec(ctx, "INSERT INTO outbox (event_id, topic, `key`, event, created_at) VALUES "+rows, values...)
	if err != nil {
		return fmt.Errorf("publish record %s and %d more: %w", records[0].ID, len(records)-1, err)
	}
	tx.AfterCommit(func() {
		for _, r := range records {
			o.published(r)
		}
	})
	return nil
}

// encode returns the event of r with the Source of this outbox and, if r has no Time, the current
// one. It fails as Record.Encode does. The caller's record is not changed.
func (o *Outbox) encode(r stream.Record) (string, error) {
	r.Source = o.source
	if r.Time == 0 {
		r.Time = o.nowMs()
	}
	event, err := r.Encode()
	return string(event), err
}

// published counts and logs a record whose transaction has committed, and wakes the consumers of
// its topic.
func (o *Outbox) published(r stream.Record) {
	o.counters.Published.Add(1)
	o.log.Debug("record published", "topic", string(r.Topic), "record", r.ID, "type", string(r.Type),
		"subject", r.Subject, "account", keyText(r.Key))
	o.wake(r.Topic)
}

// wake wakes the relay and the sessions of the topic in this process. It does not block.
func (o *Outbox) wake(topic stream.Topic) {
	signal(o.announced)
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.sessions {
		if s.sub.Topic == topic {
			signal(s.ready)
		}
	}
}

// signal sends without blocking; c must have a buffer of 1.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is already pending
	}
}

// Lags returns the lag of every consumer that has a cursor, including those that no longer run.
func (o *Outbox) Lags(ctx context.Context) ([]stream.Lag, error) {
	rows, err := o.db.Query(ctx, `SELECT consumer, topic,
		COALESCE((SELECT MAX(id) FROM outbox WHERE topic = c.topic), 0) - position,
		(SELECT COUNT(*) FROM deliveries WHERE consumer = c.consumer AND topic = c.topic)
		FROM cursors c ORDER BY consumer, topic`)
	lags, err := sqldb.Scan(rows, err, func(l *stream.Lag, scan func(...any) error) error {
		err := scan(&l.Consumer, &l.Topic, &l.Offsets, &l.Waiting)
		l.Offsets = max(0, l.Offsets)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the lag of the consumers: %w", err)
	}
	return lags, nil
}

// nowMs returns the current time, in milliseconds.
func (o *Outbox) nowMs() drive.Time { return drive.TimeOf(o.now()) }

// keyText returns the key as stored: "" for zero.
func keyText(key drive.AccountID) string {
	if key.IsZero() {
		return ""
	}
	return key.String()
}
