// Package sqldb is the SQL database of SmartDrive, its source of truth: the schema and the only way
// to write to it.
//
// The database is a SQLite file, or a MySQL or MariaDB server that several processes share. Both
// use the same SQL text, with few exceptions (Dialect).
//
// # Writing
//
// DB.Write runs a function in a write transaction. SQLite has a single writer with group commit:
// writes that arrive during an fsync share the next commit. Each has its own savepoint, so a failed
// function does not affect the others. On MySQL each write has its own transaction in READ
// COMMITTED. The function must be short (no I/O, no waiting: the budget is 50 ms), must leave
// effects outside of the database to Tx.AfterCommit, and must be repeatable: it assigns its results
// and never reads or accumulates them.
//
// When Write returns nil, the change is durable (synchronous=FULL, or per the server's settings).
// After an error of kind Unavailable the outcome may be unknown: the commit may have succeeded and
// its reply been lost. Every caller therefore uses a compare-and-set or an idempotency key, so that
// a retry is safe. ErrUnwritten marks an Unavailable error after which nothing was written.
//
// A function of a group sees uncommitted writes of earlier functions of the group. Its result, even
// an error, is valid only after the commit. If the group fails, Write returns Unavailable or
// DiskFull for every function that ran, whatever the function returned.
//
// # Locks
//
// SQLite has a single writer and needs no locks. On MySQL, a transaction about an account's data
// first locks the row of the account's ledger (quota.Ledger.Lock). It locks blobs, which accounts
// share, in the order of their ids. docs/transactions.md lists all transactions;
// docs/decisions/0013-mysql-transactions.md gives the reasons.
package sqldb
