package sqldb

import (
	"errors"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite writes each page of a commit to the log in two adjacent pieces, 24 bytes and the page. The
// code below collects the pieces in memory and writes them at the sync of the log, or before any
// other operation on it. This is safe for three reasons:
//
//	other connections    read only up to the last commit, and with synchronous=FULL the log is
//	                     synced before a commit becomes visible
//	failed writes        make the sync or the other operation fail with an error after which
//	                     SQLite rolls back the whole transaction
//	late writes          cannot overwrite another transaction: the rest of a rolled back
//	                     transaction is written before another connection may write
//
// So writes reach the system in order while the write lock is held, and a commit becomes valid
// after all its writes.

// maxCollected bounds the collected bytes.
const maxCollected = 256 << 10

// collectedWrites is one contiguous block of bytes to write to a log. Only the connection that
// opened the log uses it.
type collectedWrites struct {
	database uintptr // address of its name
	bytes    []byte
	off      int64 // file offset of the first byte
}

// Signatures of the methods in the translation; xRead and xWrite have the same type.
type (
	xReadOrWrite = func(tls *libc.TLS, file, buf uintptr, n int32, off sqlite3.Tsqlite3_int64) int32
	xTruncate    = func(tls *libc.TLS, file uintptr, size sqlite3.Tsqlite3_int64) int32
	xFileSize    = func(tls *libc.TLS, file, size uintptr) int32
	xClose       = func(tls *libc.TLS, file uintptr) int32
)

// logs holds the open logs and SQLite's own functions. SQLite keeps pointers to its methods, so it
// is a global that never moves.
var logs struct {
	mu      sync.Mutex
	open    map[uintptr]*collectedWrites // by file
	of      map[uintptr]uintptr          // file by the address of the database's name
	methods *sqlite3.Tsqlite3_io_methods // our methods

	read      xReadOrWrite
	truncate  xTruncate
	size      xFileSize
	closeFile xClose
}

// collectIn returns our methods for the log file of a database, which SQLite opened with the
// methods plain.
func collectIn(file, database, plain uintptr) uintptr {
	l := &logs
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.methods == nil {
		own := *at[sqlite3.Tsqlite3_io_methods](plain)
		l.open, l.of = map[uintptr]*collectedWrites{}, map[uintptr]uintptr{}
		l.read, l.truncate = reinterpret[xReadOrWrite](own.FxRead), reinterpret[xTruncate](own.FxTruncate)
		l.size, l.closeFile = reinterpret[xFileSize](own.FxFileSize), reinterpret[xClose](own.FxClose)
		own.FxWrite, own.FxSync = reinterpret[uintptr](collectWrite), reinterpret[uintptr](syncLog)
		own.FxRead, own.FxTruncate = reinterpret[uintptr](readLog), reinterpret[uintptr](truncateLog)
		own.FxFileSize, own.FxClose = reinterpret[uintptr](sizeOfLog), reinterpret[uintptr](closeLog)
		l.methods = &own
	}
	l.open[file] = &collectedWrites{database: database, bytes: make([]byte, 0, maxCollected)}
	l.of[database] = file
	return reinterpret[uintptr](l.methods)
}

// collectedIn returns the writes that were collected for an open write-ahead log, whose SQLite file
// handle is file; nil if it is not open.
func collectedIn(file uintptr) *collectedWrites {
	logs.mu.Lock()
	defer logs.mu.Unlock()
	return logs.open[file]
}

// collectWrite collects a write to the log (xWrite). If it is not adjacent, or too much is
// collected, the earlier bytes are written first.
func collectWrite(_ *libc.TLS, file, buf uintptr, n int32, off sqlite3.Tsqlite3_int64) int32 {
	g := collectedIn(file)
	if off != g.off+int64(len(g.bytes)) || len(g.bytes)+int(n) > maxCollected {
		if rc := g.write(file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		g.off = off
	}
	g.bytes = append(g.bytes, unsafe.Slice(at[byte](buf), n)...) //nolint:gosec // memory of SQLite, during its call
	return sqlite3.SQLITE_OK
}

// write writes the collected bytes to the file and drops them, also on failure: then the
// transaction is rolled back.
func (g *collectedWrites) write(file uintptr) int32 {
	rest, off := g.bytes, g.off
	g.off += int64(len(g.bytes))
	g.bytes = g.bytes[:0]
	f := at[sqlite3.TunixFile](file)
	for len(rest) > 0 {
		n, err := unix.Pwrite(int(f.Fh), rest, off)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSPC), err == nil && n == 0:
			f.FlastErrno = 0 // as SQLite does
			return sqlite3.SQLITE_FULL
		case err != nil:
			noteErrno(f, err)
			return sqlite3.SQLITE_IOERR_WRITE
		}
		rest, off = rest[n:], off+int64(n)
	}
	return sqlite3.SQLITE_OK
}

// noteErrno stores the system's error number of err in the SQLite file, as SQLite does for its own
// calls. An err without a number changes nothing.
func noteErrno(f *sqlite3.TunixFile, err error) {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.FlastErrno = int32(errno)
	}
}

// writeFirst writes the collected bytes to the log before another operation on it. It returns a
// SQLite result code; a full disk is diskFullDuringOther, because the operation itself does not
// report a full disk.
func writeFirst(file uintptr) int32 {
	rc := collectedIn(file).write(file)
	if rc == sqlite3.SQLITE_FULL {
		rc = diskFullDuringOther
	}
	return rc
}

// syncLog writes the collected bytes and syncs the log (xSync).
func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	if rc := collectedIn(file).write(file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return syncData(tls, file, flags)
}

// readLog writes the collected bytes and reads from the log (xRead).
func readLog(tls *libc.TLS, file, buf uintptr, n int32, off sqlite3.Tsqlite3_int64) int32 {
	if rc := writeFirst(file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return logs.read(tls, file, buf, n, off)
}

// truncateLog writes the collected bytes and truncates the log (xTruncate).
func truncateLog(tls *libc.TLS, file uintptr, size sqlite3.Tsqlite3_int64) int32 {
	if rc := writeFirst(file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return logs.truncate(tls, file, size)
}

// sizeOfLog writes the collected bytes and returns the size of the log (xFileSize).
func sizeOfLog(tls *libc.TLS, file, size uintptr) int32 {
	if rc := writeFirst(file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return logs.size(tls, file, size)
}

// closeLog closes the log (xClose). It drops unsynced bytes: they belong to no commit.
func closeLog(tls *libc.TLS, file uintptr) int32 {
	logs.mu.Lock()
	delete(logs.of, logs.open[file].database)
	delete(logs.open, file)
	logs.mu.Unlock()
	return logs.closeFile(tls, file)
}

// writeLock is the index of the write lock (https://www.sqlite.org/walformat.html, 2.3.1).
const writeLock = 0

// lockShared implements xShmLock of a database. Before it releases the write lock it writes the
// collected bytes. They belong to a rolled back transaction, so a failure does not matter.
func lockShared(tls *libc.TLS, file uintptr, first, n, flags int32) int32 {
	if first == writeLock && flags&sqlite3.SQLITE_SHM_UNLOCK != 0 {
		if log := logOf(at[sqlite3.TunixFile](file).FzPath); log != 0 {
			collectedIn(log).write(log)
		}
	}
	return dataSync.lock(tls, file, first, n, flags)
}

// logOf returns the SQLite file handle of the write-ahead log of a database, given by its own
// handle; 0 if no log is open.
func logOf(database uintptr) uintptr {
	logs.mu.Lock()
	defer logs.mu.Unlock()
	return logs.of[database]
}
