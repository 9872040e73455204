// Package cluster holds the real binary to its word while the parts of a cluster die, are emptied,
// or cannot be reached. It has tests only; package rig runs what they need: MariaDB, Redis, Kafka,
// an S3 server, and a faulty network before each.
//
//	TestTwoInstancesFillOneUpload    what two processes share, and who goes on when one dies in the middle of a part
//	TestChaos                        components and instances are killed one at a time and in pairs, at random, during load
//	TestRedisIsEmptied               FLUSHALL amid many open uploads
//	TestNetworkFaults                cut, slow, reset, silent, deaf: before each component, during load
//	TestAnOutageKillsNoMessage       the database is away while timers come due
//
// Clients speak raw HTTP. The judge reads the database with plain SQL and the bucket as any client
// of S3 does, hashes every file, and shares no code with the server. At last "smartdrive admin fsck
// --deep" has to agree.
//
// SMARTDRIVE_CLUSTER_KILLS says how many kills TestChaos makes (12), SMARTDRIVE_CLUSTER_FAULTS how
// many of the 20 faults of the network are tried (8), SMARTDRIVE_CLUSTER_UPLOADS how many uploads
// are open when Redis is emptied (1,000); SMARTDRIVE_CLUSTER_SEED repeats a choice. SMARTDRIVE_SOAK
// makes 500 kills, all faults, and an outage of 10 minutes.
package cluster
