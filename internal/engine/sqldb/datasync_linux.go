package sqldb

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite is made to call fdatasync on Linux; its translation to Go calls fsync. Either makes
// durable what was written and what is needed to read it, so a commit is as durable. But fsync also
// waits for the time of the last change: whenever the log is synced, which is written in place over
// and over, the file system commits its journal, with whatever other files are in it. So what
// writes opens a database through a file system (VFS) of our own, which is SQLite's but for xSync,
// and for the log (see gather_linux.go).
// https://www.sqlite.org/vfs.html

const dataSyncName = "smartdrive-datasync"

// xOpen, xSync and xShmLock, as the translation declares them.
type (
	xOpen    = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	xSync    = func(tls *libc.TLS, file uintptr, flags int32) int32
	xShmLock = func(tls *libc.TLS, file uintptr, first, n, flags int32) int32
)

// dataSync is what SQLite points to: it stays where it is, for good.
var dataSync struct {
	vfs   sqlite3.Tsqlite3_vfs
	open  xOpen // SQLite's own
	mu    sync.Mutex
	sync  xSync                                    // SQLite's own
	lock  xShmLock                                 // SQLite's own
	files map[uintptr]*sqlite3.Tsqlite3_io_methods // by those of SQLite that they are like
}

// fileSystem makes it known to SQLite and returns its name.
var fileSystem = sync.OnceValues(func() (string, error) {
	tls := libc.NewTLS()
	defer tls.Close()
	plain := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if plain == 0 {
		return "", errors.New("SQLite has no file system")
	}
	name, err := libc.CString(dataSyncName)
	if err != nil {
		return "", err
	}
	d := &dataSync
	d.files = map[uintptr]*sqlite3.Tsqlite3_io_methods{}
	d.vfs = *at[sqlite3.Tsqlite3_vfs](plain)
	d.open = reinterpret[xOpen](d.vfs.FxOpen)
	d.vfs.FzName, d.vfs.FxOpen = name, reinterpret[uintptr](openDataSync)
	if rc := sqlite3.Xsqlite3_vfs_register(tls, reinterpret[uintptr](&d.vfs), 0); rc != sqlite3.SQLITE_OK {
		return "", fmt.Errorf("SQLite does not take its file system: error %d", rc)
	}
	return dataSyncName, nil
})

// reinterpret is an address as a pointer or function, and the other way round: the translation
// keeps both as numbers. What is pointed to is static, kept by dataSync, or in SQLite's memory.
func reinterpret[To, From any](x From) To {
	return *(*To)(unsafe.Pointer(&x)) //nolint:gosec // this one place
}

func at[T any](address uintptr) *T { return reinterpret[*T](address) }

// openDataSync is xOpen. The file is one of SQLite's own, and only its methods are others.
func openDataSync(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 {
	rc := dataSync.open(tls, vfs, name, file, flags, out)
	if f := at[sqlite3.Tsqlite3_file](file); rc == sqlite3.SQLITE_OK {
		f.FpMethods = dataSyncMethods(f.FpMethods)
		if flags&sqlite3.SQLITE_OPEN_WAL != 0 {
			f.FpMethods = gatherIn(file, sqlite3.Xsqlite3_filename_database(tls, name), f.FpMethods)
		}
	}
	return rc
}

func dataSyncMethods(plain uintptr) uintptr {
	d := &dataSync
	d.mu.Lock()
	defer d.mu.Unlock()
	own := d.files[plain]
	if own == nil {
		own = new(*at[sqlite3.Tsqlite3_io_methods](plain))
		if d.sync == nil {
			d.sync = reinterpret[xSync](own.FxSync)
		}
		own.FxSync = reinterpret[uintptr](syncData)
		if own.FxShmLock != 0 {
			d.lock = reinterpret[xShmLock](own.FxShmLock)
			own.FxShmLock = reinterpret[uintptr](lockShared)
		}
		d.files[plain] = own
	}
	return reinterpret[uintptr](own)
}

// syncData is xSync. The first one of a new file is SQLite's own: it syncs the directory, too.
func syncData(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := at[sqlite3.TunixFile](file)
	if f.FctrlFlags&sqlite3.UNIXFILE_DIRSYNC != 0 {
		return dataSync.sync(tls, file, flags)
	}
	err := unix.Fdatasync(int(f.Fh))
	for errors.Is(err, unix.EINTR) {
		err = unix.Fdatasync(int(f.Fh))
	}
	if err != nil {
		noteErrno(f, err)
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	return sqlite3.SQLITE_OK
}
