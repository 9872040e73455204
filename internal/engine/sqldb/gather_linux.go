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

// SQLite writes each page of a commit to the log in two pieces, 24 bytes and the page, one behind
// the other. Here they are put together in memory, and written when the log is synced, or before
// anything else is done to it. Three things make that safe:
//
//	others do not miss them   what is behind the last commit nobody reads but who writes it, and
//	                          with synchronous=FULL the log is synced before a commit is shown
//	they are not missing      what cannot be written fails the sync, or whatever else was asked for,
//	                          by an error after which SQLite rolls back the whole transaction
//	they do not come late     what a transaction that was rolled back has left is written before
//	                          another connection may write: it would be in that one's place
//
// So writes reach the system in their order, while the lock of who writes is held, and a commit
// counts after all of its own have.

// mostGathered is how much is put together, in bytes.
const mostGathered = 256 << 10

// gathered is what is to be written to a log, in one piece. Only the connection that has opened the
// log uses it.
type gathered struct {
	database uintptr // its name
	bytes    []byte
	off      int64 // where the first of them goes
}

// xRead and xWrite are the same type, as the translation declares them; so are the rest.
type (
	xReadOrWrite = func(tls *libc.TLS, file, buf uintptr, n int32, off sqlite3.Tsqlite3_int64) int32
	xTruncate    = func(tls *libc.TLS, file uintptr, size sqlite3.Tsqlite3_int64) int32
	xFileSize    = func(tls *libc.TLS, file, size uintptr) int32
	xClose       = func(tls *libc.TLS, file uintptr) int32
)

// logs are the logs that are open, and what SQLite does to them by itself. It points to methods,
// which stay where they are, for good.
var logs struct {
	mu      sync.Mutex
	open    map[uintptr]*gathered
	of      map[uintptr]uintptr          // by the name of their database, where SQLite has it
	methods *sqlite3.Tsqlite3_io_methods // as SQLite is told of them

	read      xReadOrWrite
	truncate  xTruncate
	size      xFileSize
	closeFile xClose
}

// gatherIn returns the methods for the log of a database that was opened with those given.
func gatherIn(file, database, plain uintptr) uintptr {
	l := &logs
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.methods == nil {
		own := *at[sqlite3.Tsqlite3_io_methods](plain)
		l.open, l.of = map[uintptr]*gathered{}, map[uintptr]uintptr{}
		l.read, l.truncate = reinterpret[xReadOrWrite](own.FxRead), reinterpret[xTruncate](own.FxTruncate)
		l.size, l.closeFile = reinterpret[xFileSize](own.FxFileSize), reinterpret[xClose](own.FxClose)
		own.FxWrite, own.FxSync = reinterpret[uintptr](gatherWrite), reinterpret[uintptr](syncLog)
		own.FxRead, own.FxTruncate = reinterpret[uintptr](readLog), reinterpret[uintptr](truncateLog)
		own.FxFileSize, own.FxClose = reinterpret[uintptr](sizeOfLog), reinterpret[uintptr](closeLog)
		l.methods = &own
	}
	l.open[file] = &gathered{database: database, bytes: make([]byte, 0, mostGathered)}
	l.of[database] = file
	return reinterpret[uintptr](l.methods)
}

func gatheredIn(file uintptr) *gathered {
	logs.mu.Lock()
	defer logs.mu.Unlock()
	return logs.open[file]
}

// gatherWrite is xWrite.
func gatherWrite(_ *libc.TLS, file, buf uintptr, n int32, off sqlite3.Tsqlite3_int64) int32 {
	g := gatheredIn(file)
	if off != g.off+int64(len(g.bytes)) || len(g.bytes)+int(n) > mostGathered {
		if rc := g.write(file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		g.off = off
	}
	g.bytes = append(g.bytes, unsafe.Slice(at[byte](buf), n)...) //nolint:gosec // memory of SQLite, during its call
	return sqlite3.SQLITE_OK
}

// write brings what was gathered to the file. What cannot be written is forgotten: its transaction
// is rolled back.
func (g *gathered) write(file uintptr) int32 {
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
			f.FlastErrno = 0 // as SQLite has it
			return sqlite3.SQLITE_FULL
		case err != nil:
			noteErrno(f, err)
			return sqlite3.SQLITE_IOERR_WRITE
		}
		rest, off = rest[n:], off+int64(n)
	}
	return sqlite3.SQLITE_OK
}

func noteErrno(f *sqlite3.TunixFile, err error) {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.FlastErrno = int32(errno)
	}
}

// writeFirst is write for what else is asked of a log.
func writeFirst(file uintptr) int32 {
	rc := gatheredIn(file).write(file)
	if rc == sqlite3.SQLITE_FULL {
		rc = fullWhileAsked
	}
	return rc
}

// syncLog is xSync.
func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	if rc := gatheredIn(file).write(file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return syncData(tls, file, flags)
}

// readLog is xRead.
func readLog(tls *libc.TLS, file, buf uintptr, n int32, off sqlite3.Tsqlite3_int64) int32 {
	if rc := writeFirst(file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return logs.read(tls, file, buf, n, off)
}

// truncateLog is xTruncate.
func truncateLog(tls *libc.TLS, file uintptr, size sqlite3.Tsqlite3_int64) int32 {
	if rc := writeFirst(file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return logs.truncate(tls, file, size)
}

// sizeOfLog is xFileSize.
func sizeOfLog(tls *libc.TLS, file, size uintptr) int32 {
	if rc := writeFirst(file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return logs.size(tls, file, size)
}

// closeLog is xClose. What was not synced belongs to no commit.
func closeLog(tls *libc.TLS, file uintptr) int32 {
	logs.mu.Lock()
	delete(logs.of, logs.open[file].database)
	delete(logs.open, file)
	logs.mu.Unlock()
	return logs.closeFile(tls, file)
}

// writeLock is the place of the lock of who writes (https://www.sqlite.org/walformat.html, 2.3.1).
const writeLock = 0

// lockShared is xShmLock of a database. When the lock of who writes is given back, what is gathered
// is of a transaction that was rolled back: whether it can be written does not matter.
func lockShared(tls *libc.TLS, file uintptr, first, n, flags int32) int32 {
	if first == writeLock && flags&sqlite3.SQLITE_SHM_UNLOCK != 0 {
		if log := logOf(at[sqlite3.TunixFile](file).FzPath); log != 0 {
			gatheredIn(log).write(log)
		}
	}
	return dataSync.lock(tls, file, first, n, flags)
}

// logOf is the log of a database, zero: it has none.
func logOf(database uintptr) uintptr {
	logs.mu.Lock()
	defer logs.mu.Unlock()
	return logs.of[database]
}
