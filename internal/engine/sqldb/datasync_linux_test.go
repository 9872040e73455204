package sqldb

import (
	"syscall"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"
)

// notOpen is a file whose memory the garbage collector does not move, like SQLite's files.
var notOpen = sqlite3.TunixFile{Fh: -1}

// TestSyncThatFails: a failed sync commits nothing; SQLite gets the system's error.
func TestSyncThatFails(t *testing.T) {
	t.Parallel()
	none := &notOpen
	if rc := syncData(nil, reinterpret[uintptr](none), sqlite3.SQLITE_SYNC_NORMAL); rc != sqlite3.SQLITE_IOERR_FSYNC || none.FlastErrno != int32(syscall.EBADF) {
		t.Errorf("result %d, error %d; want %d, %d", rc, none.FlastErrno, sqlite3.SQLITE_IOERR_FSYNC, int32(syscall.EBADF))
	}
}
