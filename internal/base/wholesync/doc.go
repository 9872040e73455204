// Package wholesync makes many small files durable at once by syncing their file system. The sync
// also waits for writes of other processes.
//
// The system reports a failed write once, to each handle that was opened before. Each writer must
// therefore open a handle before it writes its files. After an error it is unknown which bytes were
// lost.
package wholesync
