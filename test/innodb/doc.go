// Package innodb holds "make a row if it is absent" to what InnoDB really does (SOURCES I1-I3). It
// has tests only, and runs them on the server that SMARTDRIVE_TEST_MYSQL names; those about locks
// in Redis need SMARTDRIVE_TEST_REDIS, too.
//
// Every trap is there twice. Once as raw SQL, the way one would write it: the test fails if the
// server no longer behaves so, and the rule that rests on it can then be reconsidered. And once as
// SmartDrive does it, with SmartDrive's own code where there is some: the test fails if SmartDrive
// falls in. docs/rows.md is the page for people.
//
// The word "session" is a connection with a transaction of its own; two of them are stepped by
// hand, and a step that has to wait for the other's lock is waited for by asking the server, never
// by time.
package innodb
