// Package app composes an installation. It is the only package that names adapters, and its Open
// and Run show the order in which parts start and stop.
//
//	start  lock the data directory · database · whose bytes are these (mark) · blobs · use cases · timers · heads · listen
//	ready  one line on standard output; then, in the background: recover uploads, operations and released files
//	stop   not ready · no new connections · requests end · timers end · seals end · blobs · database · lock
//
// The mark is a small file or object beside the contents. It names the installation and its last
// start, so that a database and contents that do not belong together are recognized. A generation
// is the number of a start. The ballast is a file that reserves disk space, so that deletes still
// commit on a full disk.
package app
