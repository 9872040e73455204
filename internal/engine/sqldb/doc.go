// Package sqldb is the truth of SmartDrive: one SQL database, its schema, and the only way to write
// to it.
//
// The database is a SQLite file, or a MySQL or MariaDB server that several processes share. The
// text of SQL is the same for both; the few who must ask for the Dialect.
//
// # Writing
//
// DB.Write runs a function in a write transaction. On SQLite there is one writer with group commit:
// writes that arrive while an fsync is under way share the next one, each in its own savepoint, so
// a function that fails takes nothing with it. On MySQL each write has a transaction of its own in
// READ COMMITTED. The function must therefore be short (no I/O, no waiting: the budget is 50 ms),
// leaves effects outside the database to Tx.AfterCommit, and must be prepared to run again from its
// beginning: it assigns what it hands out and does not read or add to it.
//
// When Write returns nil the change is durable (synchronous=FULL, or as the server's settings say).
// When it returns an error of kind Unavailable the outcome may be unknown: the commit may have
// happened and its reply been lost. Every caller is a compare-and-set or carries a key, so that
// doing it again is safe. ErrUnwritten marks an Unavailable after which it is known that nothing
// was written.
//
// The functions of a group see what those before them have written and nobody has committed yet. So
// the verdict of a function, a refusal included, counts only once its group is committed: if the
// group breaks, every function that ran in it has failed with Unavailable or DiskFull, whatever it
// returned.
//
// # Locks
//
// SQLite has one writer and needs none. Elsewhere a transaction about what belongs to an account
// begins with the row of the account's ledger (quota.Ledger.Lock), and takes blobs, where accounts
// meet, in the order of their ids. docs/transactions.md has the table of all transactions;
// docs/decisions/0013-mysql-transactions.md says why.
package sqldb
