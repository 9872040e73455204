package sqldb

import (
	"syscall"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"
)

// What cannot be synced is not committed: SQLite is told, and of the system's error.
func TestSyncThatFails(t *testing.T) {
	t.Parallel()
	none := &sqlite3.TunixFile{Fh: -1}
	if rc := syncData(nil, reinterpret[uintptr](none), sqlite3.SQLITE_SYNC_NORMAL); rc != sqlite3.SQLITE_IOERR_FSYNC || none.FlastErrno != int32(syscall.EBADF) {
		t.Errorf("result %d, error %d; want %d, %d", rc, none.FlastErrno, sqlite3.SQLITE_IOERR_FSYNC, int32(syscall.EBADF))
	}
}
