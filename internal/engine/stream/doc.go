// Package stream carries records of what happened from the transaction that made it happen to the
// consumers that act on it.
//
// A record is written by the transaction of the change it tells of (Publisher), so there is never
// one without the other. A consumer reads a topic from its own cursor on (Source, Session); Runner
// hands it the records and settles the outcomes. The embedded adapter is outbox, on tables of the
// project's database; kafka has topics of Apache Kafka, which a relay fills from the outbox.
// streamtest is the suite that every adapter passes.
//
// # What a handler may rely on
//
//   - At least once: a record comes again when the process dies between its handler and the step of the cursor, or when the
//     reply to that step is lost. Handlers are idempotent by source + id, best by a compare-and-set on the row they change.
//   - Records of one key come in the order in which they were committed, until one fails: a failed record waits on its
//     delay level while those behind it go on, so across retries there is no order, as with retry topics on Kafka. A
//     handler that minds compares a seq or a gen. A consumer that handles several records at a time keeps the order of each
//     key if it handles one of a key at a time.
//   - Acks are gathered by count and by age (D5): what a crash repeats is at most Batch records or AckAge of them, or the
//     Window of a consumer that handles several at a time, whose cursor waits for the slowest. Where sessions share, a
//     rebalance repeats as much.
//
// # A record that fails
//
//	handed over ──fails──► 5 s ──fails──► 1 min ──fails──► 10 min ──fails──► 1 h ──fails──► dead letter
//	     ▲                                                                                        │
//	     └───────────────── replay: attempt 0, due now ◄──────────────────────────────────────────┘
//
// An error of kind Unavailable or Stopping is not the record's fault: the consumer pauses, with
// back-off, and the record keeps its attempt. A panic is a failure. An event that cannot be decoded
// is a dead letter at once: waiting repairs nothing.
//
// # What it is not
//
// Not the truth: SQL rows are (T3, P4 rest on compare-and-set, not on a record coming once). Not a
// clock: timers live in package timer. Dead timers end in the same list of dead letters as dead
// records (D6).
package stream
