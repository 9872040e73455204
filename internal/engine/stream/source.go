package stream

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Publisher writes records. The outbox is in the database in every mode, so that change and record
// commit together.
type Publisher interface {
	// Append publishes the records in this order if and only if tx commits. It sets Source, and a
	// zero Time. An id that was published before violates a unique key (sqldb.IsDuplicate) and
	// leaves the transaction usable.
	Append(ctx context.Context, tx *sqldb.Tx, records ...Record) error
}

// Source opens sessions for consumers.
type Source interface {
	// Open starts a session at the consumer's cursor and creates a missing cursor. A second session
	// of the same consumer depends on the adapter. With the outbox, both may deliver the same
	// records, and the next Settle of the first fails with WrongState. With Kafka, the sessions
	// share the partitions (PartitionSharer).
	Open(ctx context.Context, sub Subscription) (Session, error)
}

// Subscription is a consumer of one topic.
type Subscription struct {
	Consumer string // name of the consumer
	Topic    Topic
	Start    Start // where a consumer without a cursor begins
}

// Start is the initial position of a consumer without a cursor.
type Start uint8

// The starts.
const (
	FromBeginning Start = iota // the oldest retained record
	FromEnd                    // the first record published after Open
)

// Session reads for one consumer. It is not safe for concurrent use. After an error of Poll or
// Settle, the caller must close it and open a new one, which continues at the cursor.
type Session interface {
	// Poll returns up to limit due retries, the earliest first, then up to limit records after the
	// last one returned. It changes nothing durable and returns no record twice. next is the time
	// at which the earliest waiting retry is due; zero if none waits, or if Ready will signal.
	Poll(ctx context.Context, limit int) (batch []Delivery, next time.Time, err error)
	// Settle makes outcomes durable: failed records move to their level or the dead letters, then
	// the cursor moves past all outcomes. The outcomes of one partition, and those of its retries,
	// must be in the order of Poll without gaps. After an error some outcomes may be durable; the
	// others are redelivered.
	Settle(ctx context.Context, outcomes []Outcome) error
	// Ready receives a value after a record was published or replayed since the last Poll. A signal
	// is lost if the reply to a commit is lost, so the caller must also poll regularly.
	Ready() <-chan struct{}
	// Close ends the session without settling.
	Close() error
}

// PartitionSharer is implemented by sessions that share the partitions of their consumer with other
// sessions. Settle ignores records of a partition that moved away; its new owner redelivers them.
type PartitionSharer interface {
	// Owns reports whether the delivery's partition still belongs to this session.
	Owns(d Delivery) bool
}

// Position is a position in a log. Adapters without partitions use partition 0.
type Position struct {
	Partition int32
	Offset    int64
}

// Delivery is a record as polled, not yet decoded.
type Delivery struct {
	Topic    Topic
	Key      string // the account's id; empty: no key
	Event    []byte // the record as encoded by Record.Encode
	Failures int    // failed attempts so far
	Retry    bool   // from a delay level or a replay; Position refers to that log
	Position Position
	Tenure   uint64 // for a PartitionSharer: the assignment of the partition in which the record was polled
}

// Verdict says what happens to a delivery.
type Verdict uint8

// The verdicts.
const (
	Ack   Verdict = iota // handled
	Delay                // failed; waits on Outcome.Level
	Dead                 // becomes a dead letter
)

// Outcome is a handled delivery with its verdict.
type Outcome struct {
	Delivery
	Verdict Verdict
	Level   Level   // for Delay
	Failure Failure // for Delay and Dead; zero if the record was only postponed, which consumes no attempt
}

// Postponed reports whether the record is delayed without a failure.
func (o Outcome) Postponed() bool { return o.Verdict == Delay && o.Failure == Failure{} }

// Failure describes a failed attempt. Kind may be shown to administrators; Text is internal.
type Failure struct {
	Kind string // code of a drive.Kind
	Text string // at most MaxFailureText bytes
}

// Lag says how far a consumer is behind its topic.
type Lag struct {
	Consumer string
	Topic    Topic
	Offsets  int64 // newest offset minus cursor, at least the number of unsettled records; 0 = none
	Waiting  int64 // records on the delay levels
}

// DeadID identifies a dead letter. Ids increase with time.
type DeadID int64

// DeadLetter is a record that failed its last attempt and needs an administrator.
type DeadLetter struct {
	ID       DeadID
	Consumer string // failed consumer, which also receives a replay
	Topic    Topic
	Key      string
	Event    []byte  // as published; may be invalid
	Failures int     // number of attempts
	Failure  Failure // of the last attempt
	DiedAt   drive.Time
}

// DeadLetters is the list of dead letters.
type DeadLetters interface {
	// Add stores a record that did not pass through a Session, such as a dead timer. It sets
	// Source, and a zero Time, as Append does.
	Add(ctx context.Context, tx *sqldb.Tx, consumer string, r Record, failures int, cause error) error
	// List returns up to limit letters with ids greater than after (0: from the start), the oldest
	// first.
	List(ctx context.Context, limit int, after DeadID) ([]DeadLetter, error)
	// Get returns a letter, or NotFound.
	Get(ctx context.Context, id DeadID) (DeadLetter, error)
	// Replay delivers a letter to its consumer again, now and with no failed attempts, and removes
	// it from the list. It fails with NotFound if the letter does not exist.
	Replay(ctx context.Context, id DeadID) error
	// Drop deletes a letter permanently. It fails with NotFound if the letter does not exist.
	Drop(ctx context.Context, id DeadID) error
}
