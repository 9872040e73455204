// Package cluster tests the real binary while components of its cluster die, lose their data or
// become unreachable. It contains only tests; package rig runs the components: MariaDB, Redis,
// Kafka, an S3 server, and a faulty network before each.
//
//	TestTwoInstancesFillOneUpload    two processes share an upload; one dies in the middle of a part
//	TestChaos                        components and instances are killed one at a time and in pairs, at random, under load
//	TestRedisIsEmptied               FLUSHALL during many open uploads
//	TestNetworkFaults                cut, slow, reset, silent, lost replies: before each component, under load
//	TestAnOutageKillsNoMessage       the database is unreachable while timers come due
//
// Clients speak raw HTTP. The judge reads the database with plain SQL and the bucket with an S3
// client, hashes every file, and shares no code with the server. In the end "smartdrive admin fsck
// --deep" must agree.
//
// Environment variables: SMARTDRIVE_CLUSTER_KILLS is the number of kills in TestChaos (12),
// SMARTDRIVE_CLUSTER_FAULTS the number of network faults tried out of 20 (8),
// SMARTDRIVE_CLUSTER_UPLOADS the number of open uploads when Redis is emptied (1,000), and
// SMARTDRIVE_CLUSTER_SEED repeats a random choice. SMARTDRIVE_SOAK makes 500 kills, all faults, and
// an outage of 10 minutes.
package cluster
