// Package kafka is the stream on Apache Kafka: it implements package stream on topics. Records come
// from the outbox of the database; dead letters end in the list of the database
// (docs/formats/kafka.md, decision 17).
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
// A replay is a row that the relay sends to the retry topic of its consumer. The row is written in
// the transaction that deletes the dead letter.
//
// # Order of writes
//
// Every message is produced with acks=all by an idempotent producer. Only then is its source
// marked, committed or settled, never before. A crash in between repeats the message; consumers are
// idempotent.
//
//   - relay: sent, not marked: sent again under the same event id
//   - session: on its level or in the dlq, offset not committed: delivered again
//   - levels: forwarded, not committed: forwarded again
//   - dead letters: in the table, not committed: skipped by the mark in the table
//
// # Deleted topics
//
// A topic of the namespace that is deleted while the process runs is created again by the next
// sender or reader (decision 181). A Kafka client remembers the id of the deleted topic, so the
// producer replaces its client, and a group member closes. The member that joins next ignores the
// committed offsets of the deleted topic. The records in the deleted topic are lost.
//
// # Sharing of partitions
//
// A consumer is a consumer group (classic protocol, cooperative-sticky). Its sessions share the
// partitions of topic and retry topic. When a partition moves, the session drops its unsettled
// records and commits nothing, and the new owner delivers them. A rebalance repeats as many records
// as a crash.
package kafka
