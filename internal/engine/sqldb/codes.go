package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"smartdrive/internal/base/drive"
)

// classify translates the engine's errors: no row is NotFound, a full disk DiskFull, a busy,
// unreachable or damaged database Unavailable. A damaged one is an outage, too: nothing that waits
// is given up for it.
func classify(err error) error {
	var lite *sqlite.Error
	var my *mysql.MySQLError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return drive.Wrap(err, drive.NotFound)
	case errors.As(err, &lite):
		return drive.Wrap(err, kindOfCode(lite.Code()), argsOf(err)...)
	case errors.As(err, &my):
		return drive.Wrap(err, kindOfNumber(my))
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, mysql.ErrInvalidConn), isNetwork(err):
		return drive.Wrap(err, drive.Unavailable)
	}
	return err
}

func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// fullWhileAsked is the result of a log that has to be written before something else can be done to
// it, and finds no room (gather_linux.go). It is one of an error of the disk, after which SQLite
// rolls back the transaction; after SQLITE_FULL it may undo the statement alone. SQLite has no code
// of this number.
const fullWhileAsked = lib.SQLITE_IOERR | 200<<8

func kindOfCode(code int) drive.Kind {
	if code == fullWhileAsked {
		return drive.DiskFull
	}
	switch code & 0xff { // the low byte is the primary result code (sqlite.org/rescode.html)
	case lib.SQLITE_FULL:
		return drive.DiskFull
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN, lib.SQLITE_INTERRUPT, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return drive.Unavailable
	}
	return drive.Internal
}

// Numbers of the errors that MySQL and MariaDB have in common (mysqld_error.h).
const (
	erDiskFull        = 1021
	erTableFull       = 1114 // also of a full disk
	erGetErrno        = 1030 // "Got error 28 ... from storage engine"
	erCommit          = 1180 // the same during COMMIT
	erWriteErrno      = 1026
	erDuplicate       = 1062
	erDuplicateKey    = 1586 // with the name of the key
	erLockTimeout     = 1205
	erDeadlock        = 1213
	erNoWait          = 3572 // MySQL: NOWAIT met a lock; MariaDB says 1205
	erDatabaseDenied  = 1044
	erUserDenied      = 1045
	erUnknownDatabase = 1049
	erChanged         = 1020 // MariaDB with innodb_snapshot_isolation: the record has changed since it was read
)

// away are the numbers that say that the server cannot do it now, or not here: it stops, is a
// replica or has failed over, has no more connections or memory, or has ended ours.
var away = []uint16{
	1037, 1038, 1040, 1041, // memory, connections
	erDatabaseDenied, erUserDenied, erUnknownDatabase, // our rights or the database have gone: no fault of the request
	1047,             // a Galera node that is not synced
	1053, 1077, 1079, // shutdown
	1158, 1159, 1160, 1161, // the network
	1203, 1226, // more connections than the user may have
	1290, 1792, 1836, // read only: a replica, or an old primary
	1317, 1927, 1969, 3024, 4031, // our statement or connection was ended
	erLockTimeout, erNoWait, erDeadlock, erChanged,
}

func kindOfNumber(err *mysql.MySQLError) drive.Kind {
	switch {
	case err.Number == erDiskFull, err.Number == erTableFull, diskErrno(err):
		return drive.DiskFull
	case slices.Contains(away, err.Number):
		return drive.Unavailable
	}
	return drive.Internal
}

// diskErrno looks into the errors that carry another one in their text: ENOSPC (28), EDQUOT (122),
// and the storage engine's own HA_ERR_RECORD_FILE_FULL (135), HA_ERR_INDEX_FILE_FULL (136) and
// HA_ERR_DISK_FULL (189; 175 before MariaDB 10.2).
func diskErrno(err *mysql.MySQLError) bool {
	if !slices.Contains([]uint16{erGetErrno, erCommit, erWriteErrno}, err.Number) {
		return false
	}
	var n int
	for i := range err.Message {
		if c, _ := fmt.Sscanf(err.Message[i:], "%d", &n); c == 1 {
			return slices.Contains([]int{28, 122, 135, 136, 175, 189}, n)
		}
	}
	return false
}

// breaksTransaction reports whether the engine may have rolled back the whole transaction, not only
// the statement. A lock that was not had in time is one of them: the function runs again from its
// beginning.
func breaksTransaction(err error) bool {
	var lite *sqlite.Error
	var my *mysql.MySQLError
	switch {
	case err == nil:
		return false
	case errors.As(err, &lite):
		switch lite.Code() & 0xff {
		case lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_NOMEM, lib.SQLITE_BUSY, lib.SQLITE_INTERRUPT, lib.SQLITE_CORRUPT:
			return true
		}
		return false
	case errors.As(err, &my):
		return kindOfNumber(my) != drive.Internal
	}
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || isNetwork(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// IsDuplicate reports whether err is the violation of a unique key.
func IsDuplicate(err error) bool {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() == lib.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == lib.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	var my *mysql.MySQLError
	return errors.As(err, &my) && (my.Number == erDuplicate || my.Number == erDuplicateKey)
}

// IsLockTimeout reports whether err says that another transaction has held a row for too long; with
// NOWAIT, at all.
func IsLockTimeout(err error) bool { return hasNumber(err, erLockTimeout, erNoWait) }

func hasNumber(err error, numbers ...uint16) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) && slices.Contains(numbers, my.Number)
}
