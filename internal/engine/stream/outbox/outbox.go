// Package outbox is the stream on one machine: package stream's ports on the tables outbox,
// cursors, deliveries and dead_letters of the project's database (migration 0008).
//
//	Append ──tx──► outbox ──Poll, by offset──► handler ──ok────► cursors.position
//	                                              └────fails──► deliveries (not_before) ──Poll, when due──► handler
//	                                                                 ▲                └──last level──► dead_letters
//	                                                                 └──────────────── Replay ────────────────┘
//
// Each arrow out of a handler is taken in the one transaction of Settle. Reading by offset is safe
// where the database has one writer: a smaller offset never becomes visible after a larger one. On
// MySQL it may: see gaps.
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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// Options configure New. The zero value of each optional field is its default.
type Options struct {
	Source string           // of every record: "smartdrive/<installation id>"; required
	Now    func() time.Time // default time.Now
	Log    *slog.Logger     // default slog.Default
	// Relayed says that a relay sends the records to a broker: no consumer reads them here, and
	// Trim deletes what is sent.
	Relayed bool
	// GapTime is how long consumers wait, on MySQL, for a record whose number was given out and
	// which is not there; see gaps. Default: 5 s.
	GapTime time.Duration
}

// Outbox publishes records and is the source of its consumers. It is safe for concurrent use.
type Outbox struct {
	db       *sqldb.DB
	source   string
	relayed  bool
	now      func() time.Time
	log      *slog.Logger
	gapTime  time.Duration
	counters Counters

	announced chan struct{} // something was published or replayed

	mu       sync.Mutex
	sessions map[*session]struct{}  // open ones, to be woken
	looked   map[stream.Topic]int64 // the id up to which the last Trim looked; 0: it came to the end
	look     int                    // see trimLook
}

// Counters tell what an Outbox did since it was made.
type Counters struct {
	Published atomic.Int64 // records whose transaction was committed
	Replayed  atomic.Int64 // dead letters that were given another chance
	Trimmed   atomic.Int64 // records that were deleted because of their age
}

var (
	_ stream.Publisher   = (*Outbox)(nil)
	_ stream.Source      = (*Outbox)(nil)
	_ stream.DeadLetters = (*Outbox)(nil)
)

// New makes the stream on db.
func New(db *sqldb.DB, opt Options) *Outbox {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	opt.GapTime = cmp.Or(opt.GapTime, gapTime)
	return &Outbox{
		gapTime: opt.GapTime,
		db:      db, source: opt.Source, now: opt.Now, log: opt.Log, announced: make(chan struct{}, 1),
		relayed: opt.Relayed, sessions: map[*session]struct{}{}, looked: map[stream.Topic]int64{}, look: trimLook,
	}
}

// Counters returns the counters.
func (o *Outbox) Counters() *Counters { return &o.counters }

// appendRows is how many records one statement inserts: five values each, far below what either
// database takes.
const appendRows = 100

// Append implements stream.Publisher.
func (o *Outbox) Append(ctx context.Context, tx *sqldb.Tx, records ...stream.Record) error {
	for page := range slices.Chunk(records, appendRows) {
		if err := o.appendPage(ctx, tx, page); err != nil {
			return err
		}
	}
	return nil
}

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

func (o *Outbox) encode(r stream.Record) (string, error) {
	r.Source = o.source
	if r.Time == 0 {
		r.Time = o.nowMs()
	}
	event, err := r.Encode()
	return string(event), err
}

func (o *Outbox) published(r stream.Record) {
	o.counters.Published.Add(1)
	o.log.Debug("record published", "topic", string(r.Topic), "record", r.ID, "type", string(r.Type),
		"subject", r.Subject, "account", keyText(r.Key))
	o.wake(r.Topic)
}

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

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // nobody has looked since the last time
	}
}

// Lags returns how far every consumer is behind that ever ran, paused and stopped ones included.
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

func (o *Outbox) nowMs() drive.Time { return drive.TimeOf(o.now()) }

func keyText(key drive.AccountID) string {
	if key.IsZero() {
		return ""
	}
	return key.String()
}
