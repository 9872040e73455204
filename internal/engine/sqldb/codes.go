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

	"example.org/smartdrive/internal/base/drive"
)

// classify maps errors of the database to drive.Error: no row to NotFound, a full disk to DiskFull,
// and a busy, unreachable or damaged database to Unavailable. Damage counts as an outage, so that
// waiting work is retried. Other errors stay unchanged.
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

// isNetwork reports whether err comes from the connection, a lost one included, and not from the
// server's answer. The statement may or may not have been executed.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// diskFullDuringOther is the result code when the collected log writes must go to a full disk
// before another operation on the log (gather_linux.go). It is an I/O error code, so SQLite rolls
// back the whole transaction; after SQLITE_FULL it may undo only the statement. SQLite itself does
// not use the code.
const diskFullDuringOther = lib.SQLITE_IOERR | 200<<8

// kindOfCode maps a SQLite result code to DiskFull, Unavailable (also for a damaged file) or
// Internal.
func kindOfCode(code int) drive.Kind {
	if code == diskFullDuringOther {
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

// Error numbers common to MySQL and MariaDB (mysqld_error.h).
const (
	erDiskFull        = 1021
	erTableFull       = 1114 // also for a full disk
	erGetErrno        = 1030 // "Got error 28 ... from storage engine"
	erCommit          = 1180 // the same during COMMIT
	erWriteErrno      = 1026
	erDuplicate       = 1062
	erDuplicateKey    = 1586 // with the name of the key
	erLockTimeout     = 1205
	erDeadlock        = 1213
	erNoWait          = 3572 // MySQL: NOWAIT found a lock; MariaDB returns 1205
	erDatabaseDenied  = 1044
	erUserDenied      = 1045
	erUnknownDatabase = 1049
	erChanged         = 1020 // MariaDB with innodb_snapshot_isolation: the row changed since it was read
)

// unavailableNumbers lists the error numbers of a server that cannot serve now: it shuts down, is a
// replica or failed over, lacks connections or memory, or ended our connection.
var unavailableNumbers = []uint16{
	1037, 1038, 1040, 1041, // memory, connections
	erDatabaseDenied, erUserDenied, erUnknownDatabase, // our rights or the database were removed: not an error of the request
	1047,             // a Galera node that is not synced
	1053, 1077, 1079, // shutdown
	1158, 1159, 1160, 1161, // the network
	1203, 1226, // more connections than the user may have
	1290, 1792, 1836, // read only: a replica, or an old primary
	1317, 1927, 1969, 3024, 4031, // our statement or connection was terminated
	erLockTimeout, erNoWait, erDeadlock, erChanged,
}

// kindOfNumber maps an error of MySQL or MariaDB to DiskFull, Unavailable or Internal.
func kindOfNumber(err *mysql.MySQLError) drive.Kind {
	switch {
	case err.Number == erDiskFull, err.Number == erTableFull, isDiskErrno(err):
		return drive.DiskFull
	case slices.Contains(unavailableNumbers, err.Number):
		return drive.Unavailable
	}
	return drive.Internal
}

// isDiskErrno reports whether the text of err contains the number of a disk error: ENOSPC (28),
// EDQUOT (122), or the storage engine's HA_ERR_RECORD_FILE_FULL (135), HA_ERR_INDEX_FILE_FULL (136)
// and HA_ERR_DISK_FULL (189; 175 before MariaDB 10.2).
func isDiskErrno(err *mysql.MySQLError) bool {
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
// the statement. Lock timeouts count: the function runs again from its start.
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

// IsDuplicate reports whether err is or wraps a violation of a unique or primary key, in either
// dialect.
func IsDuplicate(err error) bool {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return lite.Code() == lib.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == lib.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	var my *mysql.MySQLError
	return errors.As(err, &my) && (my.Number == erDuplicate || my.Number == erDuplicateKey)
}

// IsLockTimeout reports whether the wait for a row lock timed out, or NOWAIT found a lock.
func IsLockTimeout(err error) bool { return hasNumber(err, erLockTimeout, erNoWait) }

// hasNumber reports whether err is a MySQL error with one of the numbers.
func hasNumber(err error, numbers ...uint16) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) && slices.Contains(numbers, my.Number)
}
