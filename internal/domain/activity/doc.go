// Package activity keeps what happened: who did what to which node, and what else an account's
// people want to know. The same rows are what webhooks and pages are told of.
//
// # Words
//
// An entry is one effect. Its verb says which; a position is an entry's number within the
// installation, an event id the same with a random part, which stays unique when a backup is
// restored and numbers are given out once more.
//
// # Invariants
//
// E1: a row is written by the transaction of its effect (sqldb.Tx.InsertLate), so there is none
// without the other. Each number of trees.seq above the first one that is kept has exactly one row:
// package tree tells of every change of a node (Node), whichever use case made it. E2: entries of
// one account commit in the order of their positions. Whoever calls Note or Node holds the lock on
// the ledger's row of the account; so a reader that has passed a position has missed none before
// it. E3: nothing but age deletes a row.
//
// It is not the feed of changes (package tree), from which a client learns what there is now, and
// not the log of the process. The package owns the table activity.
package activity
