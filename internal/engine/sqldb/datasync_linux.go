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

// On Linux, C SQLite calls fdatasync, but its translation to Go calls fsync. Both make a commit
// durable. fsync also writes the modification time, so every sync of the log, which is overwritten
// in place, would make the file system commit its journal with all pending files. The write
// connections therefore use a file system (VFS) of our own: SQLite's with another xSync and another
// handling of the log (gather_linux.go). https://www.sqlite.org/vfs.html

// dataSyncName is the name of the VFS in data sources.
const dataSyncName = "smartdrive-datasync"

// Signatures of xOpen, xSync and xShmLock in the translation.
type (
	xOpen    = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	xSync    = func(tls *libc.TLS, file uintptr, flags int32) int32
	xShmLock = func(tls *libc.TLS, file uintptr, first, n, flags int32) int32
)

// dataSync is the state of the VFS. SQLite keeps pointers to it, so it is a global that never
// moves.
var dataSync struct {
	vfs   sqlite3.Tsqlite3_vfs
	open  xOpen // SQLite's own function
	mu    sync.Mutex
	sync  xSync                                    // SQLite's own function
	lock  xShmLock                                 // SQLite's own function
	files map[uintptr]*sqlite3.Tsqlite3_io_methods // our methods by SQLite's methods that they replace
}

// fileSystem registers the VFS once and returns its name.
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

// reinterpret converts an address between a number and a pointer or function: the translation keeps
// both as numbers. The targets are static, kept alive by dataSync, or in SQLite's memory.
func reinterpret[To, From any](x From) To {
	return *(*To)(unsafe.Pointer(&x)) //nolint:gosec // this one place
}

// at returns the address as a pointer.
func at[T any](address uintptr) *T { return reinterpret[*T](address) }

// openDataSync implements xOpen: it opens a file as SQLite does and replaces its methods.
func openDataSync(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 {
	rc := dataSync.open(tls, vfs, name, file, flags, out)
	if f := at[sqlite3.Tsqlite3_file](file); rc == sqlite3.SQLITE_OK {
		f.FpMethods = dataSyncMethods(f.FpMethods)
		if flags&sqlite3.SQLITE_OPEN_WAL != 0 {
			f.FpMethods = collectIn(file, sqlite3.Xsqlite3_filename_database(tls, name), f.FpMethods)
		}
	}
	return rc
}

// dataSyncMethods returns a pointer to a copy of SQLite's file methods plain in which xSync, and
// xShmLock if present, are replaced by our own. The copy is made on the first call, cached for the
// life of the process and never freed. plain itself is not changed.
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

// syncData implements xSync by fdatasync. The first sync of a new file uses SQLite's own function,
// which also syncs the directory.
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
