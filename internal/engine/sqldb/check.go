package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// ReasonDamaged is the arg "reason" of Unavailable errors caused by a damaged SQLite file.
const ReasonDamaged = "database-damaged"

// IsDamaged reports whether err says that a SQLite file is damaged or not a database.
func IsDamaged(err error) bool {
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok && slices.Contains([]int{lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB}, lite.Code()&0xff)
}

// argsOf returns the arguments of the drive.Error for a database error: the reason if err says that
// the database is damaged, else nil.
func argsOf(err error) []any {
	if IsDamaged(err) {
		return []any{"reason", ReasonDamaged}
	}
	return nil
}

// CheckPages reads the whole SQLite file, while in use, and returns at most 20 lines about damage;
// none if it is sound. With thorough set it also compares each index with its table, which takes
// several times longer. On MySQL it returns nothing: the server checks itself.
func (db *DB) CheckPages(ctx context.Context, thorough bool) (found []string, err error) {
	if r := db.routed(); r != nil {
		return r.Primary().CheckPages(ctx, thorough)
	}
	if db.dialect == MySQL {
		return nil, nil
	}
	var path string
	if err := db.QueryRow(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path); err != nil {
		if IsDamaged(err) {
			return []string{err.Error()}, nil
		}
		return nil, fmt.Errorf("look where the database is: %w", err)
	}
	return CheckFile(ctx, path, thorough)
}

// CheckFile reads the whole SQLite file at path, which may be in use, and returns at most 20 lines
// about damage; none if it is sound. thorough also compares each index with its table. It opens its
// own connection, because one in use may have an older page in its cache.
func CheckFile(ctx context.Context, path string, thorough bool) (found []string, err error) {
	db, err := sql.Open("sqlite", sqliteScheme+escapePath(path)+"?_pragma=busy_timeout(5000)&_pragma=ignore_check_constraints(1)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	pragma := "PRAGMA quick_check(20)"
	if thorough {
		pragma = "PRAGMA integrity_check(20)"
	}
	rows, err := db.QueryContext(ctx, pragma)
	found, err = Scan(rows, err, func(line *string, scan func(...any) error) error { return scan(line) })
	switch {
	case IsDamaged(err): // the check itself failed on the damage
		return append(found, "SQLite cannot read on"), nil
	case err != nil:
		return nil, fmt.Errorf("check the pages of %s: %w", filepath.Base(path), err)
	case slices.Equal(found, []string{"ok"}):
		return nil, nil
	}
	return found, nil
}
