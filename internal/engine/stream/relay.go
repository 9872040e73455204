package stream

import (
	"context"
	"time"
)

// Sender publishes records that belong to no transaction, because what they tell of is found again
// when they are lost: a timer that fired stays leased until its record is sent.
type Sender interface {
	// Send returns nil when all records are durable. After an error some may be: they are sent
	// again under the same ids.
	Send(ctx context.Context, records ...Record) error
}

// Backlog is what transactions have published and nobody has sent to a broker yet. A row is found
// by not being marked, never by its number: numbers become visible out of order where several
// transactions commit at a time.
type Backlog interface {
	// Unsent returns at most limit records in the order in which they were published, and at most
	// limit retries that are due.
	Unsent(ctx context.Context, limit int) ([]Unsent, error)
	// MarkSent takes them out of the backlog. What is not there any more is not an error.
	MarkSent(ctx context.Context, sent []Unsent) error
	// Announced gets a value when this process has published or replayed something. It is a hint.
	Announced() <-chan struct{}
	// Waiting returns how many records and due retries are unsent, and the age of the oldest
	// record.
	Waiting(ctx context.Context) (n int64, oldest time.Duration, err error)
}

// Unsent is a record of the backlog; Position.Offset names its row.
type Unsent struct {
	Delivery
	Consumer string // who gets it, for a retry
}

// Graveyard takes dead letters over from a log that is drained.
type Graveyard interface {
	// Inter adds the letters of one partition of a log and moves the mark of that partition behind
	// them, in one step. Letters at or before the mark are in it already, and so is one whose
	// consumer has a letter of that event: they add nothing. Letters without a consumer are
	// messages of other producers, of which two may have one id: each is added. log is different
	// for a log that was deleted and made again.
	Inter(ctx context.Context, log string, letters []Drained) error
}

// Drained is a dead letter on its way into the Graveyard.
type Drained struct {
	DeadLetter
	Position Position
	EventID  string // empty where the event cannot be read
}
