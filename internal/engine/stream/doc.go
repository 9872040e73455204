// Package stream carries records of events from the transaction that caused them to the consumers
// that act on them.
//
// The transaction of a change also writes its record (Publisher), so that both commit or neither. A
// consumer reads a topic from its own cursor (Source, Session). Runner passes the records to the
// handler and settles the outcomes. The adapter outbox uses tables of the project's database; the
// adapter kafka uses Kafka topics, filled from the outbox by a relay. streamtest is the conformance
// suite of the adapters.
//
// # Delivery guarantees
//
//   - At least once: a record is redelivered if the process dies between the handler and the move of the cursor, or if the
//     reply to that move is lost. Handlers are idempotent by source + id, best by a compare-and-set on the row they change.
//   - Records of one key are delivered in commit order until one fails. A failed record waits on its delay level while later
//     records proceed, so retries are out of order, as with retry topics on Kafka. A handler that needs the order compares a
//     seq or a gen. A consumer that handles several records at once keeps the order of each key with PerKey = 1.
//   - Acks are settled in batches by count and age (D5). A crash repeats at most Batch records, or those of AckAge. With
//     Parallel > 1 it repeats at most Window records, since the cursor waits for the slowest. If sessions share partitions, a
//     rebalance repeats as many.
//
// # Failed records
//
//	delivered ──fails──► 5 s ──fails──► 1 min ──fails──► 10 min ──fails──► 1 h ──fails──► dead letter
//	     ▲                                                                                     │
//	     └───────────────── replay: attempt 0, due now ◄───────────────────────────────────────┘
//
// An error of kind Unavailable or Stopping is not caused by the record: the consumer pauses with
// backoff, and the record consumes no attempt. A panic counts as a failure. A record that cannot be
// decoded becomes a dead letter at once.
//
// # Limits
//
// The stream is not the source of truth: the rows in SQL are (T3 and P4 rest on compare-and-set,
// not on exactly-once delivery). It is not a clock: package timer has the timers. Dead timers and
// dead records are in the same list of dead letters (D6).
package stream
