// Package services runs the real services that the cluster needs, without Docker and without
// installing anything: MariaDB (or MySQL), Redis alone and as a cluster of three, Apache Kafka, and
// an S3 store. "make services" runs one shared set of them for all tests of a checkout (Shared);
// tests that kill, pause and restart services run their own (package test/cluster/rig).
//
// Programs come from PATH, or else from a cache, or else are fetched to it: MariaDB and Redis as
// packages of Debian that are unpacked and not installed, Kafka's jars by Maven, the S3 gateway by
// the Go toolchain; see Tools.
//
// Each process has a directory of its own:
//
//	DIR/data    what the service stores
//	DIR/log     what it has said, appended to by each start
//	DIR/ports   its ports on loopback; a restart takes the same ones
//	DIR/pid     its process id; the process itself holds a lock on this file, which ends with it
//	DIR/made    there is one when data is complete
//
// The lock is what tells a process of ours from a stranger that got its id: only who holds the lock
// is ever signalled.
package services
