package stream

import (
	"context"
	"time"
)

// Sender publishes records outside of transactions, for records that can be recreated: a fired
// timer stays leased until its record is sent.
type Sender interface {
	// Send returns nil when all records are durable. After an error some may be durable; the caller
	// sends all again under the same ids.
	Send(ctx context.Context, records ...Record) error
}

// Backlog contains the committed records that are not sent to the broker yet. Unsent rows are found
// by a missing mark, never by number, because concurrent transactions make numbers visible out of
// order.
type Backlog interface {
	// Unsent returns up to limit records in the order of their rows, and up to limit due retries.
	Unsent(ctx context.Context, limit int) ([]Unsent, error)
	// MarkSent removes records from the backlog. Missing records are ignored.
	MarkSent(ctx context.Context, sent []Unsent) error
	// Announced receives a value after this process published or replayed a record. Signals may be
	// lost.
	Announced() <-chan struct{}
	// Waiting returns the number of unsent records and due retries, and the age of the oldest
	// record.
	Waiting(ctx context.Context) (n int64, oldest time.Duration, err error)
}

// Unsent is a record of the backlog; Position.Offset is the id of its row.
type Unsent struct {
	Delivery
	Consumer string // for a retry: the consumer that receives it
}

// DeadLetterImporter imports dead letters from a drained log.
type DeadLetterImporter interface {
	// Import inserts the letters of one partition of a log and advances the import mark of the
	// partition, in one transaction. It skips letters at or before the mark, and letters whose
	// consumer already has a letter for the event. Letters without a consumer come from other
	// producers, whose ids may collide: they are always inserted. A log that was deleted and
	// recreated must have another name.
	Import(ctx context.Context, log string, letters []DrainedLetter) error
}

// DrainedLetter is a dead letter read from a log.
type DrainedLetter struct {
	DeadLetter
	Position Position
	EventID  string // empty if the event cannot be decoded
}
