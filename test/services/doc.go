// Package services runs real services for tests of the cluster, without Docker and without
// installing anything: MariaDB (or MySQL), Redis standalone and as a cluster of three, Apache
// Kafka, and an S3 store. "make services" runs one shared set for all tests of a checkout (Shared).
// Tests that kill, pause and restart services run their own (package test/cluster/rig).
//
// Programs come from PATH or from a cache, to which missing ones are downloaded: MariaDB and Redis
// as unpacked Debian packages, Kafka's jars by Maven, the S3 gateway by the Go toolchain (Tools).
//
// Each process has its own directory:
//
//	DIR/data   data of the service
//	DIR/log    its output; each start appends
//	DIR/ports  its ports on loopback; a restart uses the same
//	DIR/pid    its process id; the process holds a lock on this file until it ends
//	DIR/made   exists when data is complete
//
// The lock distinguishes our process from another one with the same id: only the holder of the lock
// is signalled.
package services
