package sqldb

import (
	"syscall"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"
)

// notOpen is where the collector moves nothing, as the files of SQLite are.
var notOpen = sqlite3.TunixFile{Fh: -1}

// What cannot be synced is not committed: SQLite is told, and of the system's error.
func TestSyncThatFails(t *testing.T) {
	t.Parallel()
	none := &notOpen
	if rc := syncData(nil, reinterpret[uintptr](none), sqlite3.SQLITE_SYNC_NORMAL); rc != sqlite3.SQLITE_IOERR_FSYNC || none.FlastErrno != int32(syscall.EBADF) {
		t.Errorf("result %d, error %d; want %d, %d", rc, none.FlastErrno, sqlite3.SQLITE_IOERR_FSYNC, int32(syscall.EBADF))
	}
}
