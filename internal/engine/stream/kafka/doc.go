// Package kafka is the stream on Apache Kafka: package stream's ports on topics, with the outbox of
// the database before it and the list of dead letters behind it (docs/formats/kafka.md, decision
// 17).
//
//	outbox ──RunRelay──► <ns>.<topic> ──────────────► Session ──ok────► committed offset
//	   ▲                                                │ ▲ fails
//	   │                                                ▼ │
//	   │                               <ns>.delay.<level>  <ns>.retry.<consumer>.<topic>
//	   │                                                │   ▲        ▲
//	   │                                                └RunLevels───┘ (when due)
//	   │                              after the last level
//	 replay ◄── dead_letters ◄──RunDead── <ns>.dlq ◄────┘
//
// A replay is a row that the relay sends to the retry topic of its consumer, so that it is one
// transaction with the end of the dead letter.
//
// # What is durable when
//
// Everything is produced with acks=all by an idempotent producer, and only then is what it came
// from marked, committed or settled. A crash between the two repeats: consumers are idempotent.
// Nothing is ever marked first.
//
//   - relay: sent, not marked: sent again under the same event id
//   - session: on its level or in the dlq, offset not committed: handed over again
//   - levels: forwarded, not committed: forwarded again
//   - dead letters: in the table, not committed: the table's own mark skips them
//
// # Who shares what
//
// A consumer is a consumer group (classic protocol, cooperative-sticky), its sessions share the
// partitions of topic and retry topic. A partition that moves takes what was not settled with it:
// the session drops it, uncommitted, and the new owner hands it over. Nothing is committed when a
// partition is taken away, so a rebalance repeats what a crash would.
package kafka
