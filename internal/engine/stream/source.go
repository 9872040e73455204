package stream

import (
	"context"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Publisher writes records. The outbox is in the database in every mode: that is what makes state
// change and record one.
type Publisher interface {
	// Append publishes the records, in this order, if and only if tx commits. It sets Source, and
	// Time where it is zero. A record whose id was published before is a violation of a unique key
	// (sqldb.IsDuplicate) and breaks nothing else.
	Append(ctx context.Context, tx *sqldb.Tx, records ...Record) error
}

// Source is where consumers get their records.
type Source interface {
	// Open begins a session at the consumer's cursor, making the cursor if there is none. What a
	// second session of the same consumer does to the first is the adapter's: on tables it makes
	// the first fail at its next Settle (WrongState), and both may hand over the same records; on
	// Kafka they share the records (Sharer).
	Open(ctx context.Context, sub Subscription) (Session, error)
}

// Subscription names a consumer of a topic.
type Subscription struct {
	Consumer string
	Topic    Topic
	Start    Start
}

// Start says where a consumer begins that has no cursor yet.
type Start uint8

// The starts.
const (
	FromBeginning Start = iota // with the oldest record that is kept
	FromEnd                    // with the first one published after Open
)

// Session reads for one consumer. It is used by one goroutine. After an error of Poll or Settle it
// is closed and a new one opened, which goes on from what is durable.
type Session interface {
	// Poll returns what may be handed over now: at most limit retries that are due, the earliest
	// first, then at most limit records that follow the last one this session returned. It moves
	// nothing that is durable and returns nothing twice. Next is when the earliest retry that still
	// waits is due; zero when none does, or when Ready will tell.
	Poll(ctx context.Context, limit int) (batch []Delivery, next time.Time, err error)
	// Settle makes outcomes durable: failed records go to their level or to the dead letters, and
	// then, or in the same step, the cursor passes them all. The outcomes of one partition, and of
	// its retries, come in the order of Poll without gaps. After an error any of it may have
	// happened; what has is not lost, and may come again.
	Settle(ctx context.Context, outcomes []Outcome) error
	// Ready gets a value when something was published or replayed since the last Poll. It is a hint
	// and may be missed when the reply to a commit is lost: the caller polls now and then as well.
	Ready() <-chan struct{}
	// Close ends the session. It settles nothing.
	Close() error
}

// Sharer is a power of sessions that share the records of their consumer with other sessions:
// partitions move between them. What has moved away is handed over by its new owner; Settle leaves
// it alone.
type Sharer interface {
	// Holds reports whether the delivery is still this session's.
	Holds(d Delivery) bool
}

// Position is a place in a log. An adapter without partitions uses 0.
type Position struct {
	Partition int32
	Offset    int64
}

// Delivery is a record on its way to a handler, not decoded yet.
type Delivery struct {
	Topic    Topic
	Key      string // the account's id, or empty
	Event    []byte
	Failures int  // how often it has failed
	Retry    bool // it comes from a level or a replay, and Position counts there
	Position Position
	Hold     uint64 // a Sharer's: the tenure of the partition that it was polled in
}

// Verdict is what becomes of a delivery.
type Verdict uint8

// The verdicts.
const (
	Ack   Verdict = iota // it is done
	Delay                // it failed and waits on Outcome.Level
	Bury                 // it is a dead letter
)

// Outcome is a delivery with its verdict.
type Outcome struct {
	Delivery
	Verdict Verdict
	Level   Level   // for Delay
	Failure Failure // for Delay and Bury; none when the record was only put off, which consumes no attempt
}

// PutOff reports whether the record waits without having failed.
func (o Outcome) PutOff() bool { return o.Verdict == Delay && o.Failure == Failure{} }

// Failure says why a handler did not succeed. Kind may be shown to an administrator; Text is
// internal.
type Failure struct {
	Kind string // the code of a drive.Kind
	Text string // at most MaxFailureText bytes
}

// Lag says how far a consumer is behind.
type Lag struct {
	Consumer string
	Topic    Topic
	Offsets  int64 // newest offset minus cursor: 0 when it has settled everything; at least the number of records
	Waiting  int64 // records on the delay levels
}

// DeadID identifies a dead letter; they grow with time.
type DeadID int64

// DeadLetter is a record that needs a person.
type DeadLetter struct {
	ID       DeadID
	Consumer string // who failed, and who gets it when it is replayed
	Topic    Topic
	Key      string
	Event    []byte // as it was published; Decode reads it unless that is why it is here
	Failures int
	Failure  Failure
	DiedAt   drive.Time
}

// DeadLetters is the list of records that nobody could handle.
type DeadLetters interface {
	// Add puts a record there that did not come through a Session, such as a timer that fired in
	// vain. r gets the publisher's Source and Time like one that is appended.
	Add(ctx context.Context, tx *sqldb.Tx, consumer string, r Record, failures int, cause error) error
	// List returns at most limit letters that are younger than after (0: all), the oldest first.
	List(ctx context.Context, limit int, after DeadID) ([]DeadLetter, error)
	// Get returns one; NotFound when it is not there.
	Get(ctx context.Context, id DeadID) (DeadLetter, error)
	// Replay hands it to its consumer again, now, with no failure on its account. NotFound when it
	// is not there (any more).
	Replay(ctx context.Context, id DeadID) error
	// Drop deletes it for good. NotFound when it is not there.
	Drop(ctx context.Context, id DeadID) error
}
