package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

const databaseFile = "smartdrive.db"

// database is a copy of the server's database, in a temporary directory.
type database struct {
	*sql.DB
	dir string
}

// openCopy copies the database and its write-ahead log. Opening the copy recovers it and leaves the
// original unchanged. The caller must call Close.
func openCopy(data string) (*database, error) {
	dir, err := os.MkdirTemp("", "smartdrive-check-")
	if err != nil {
		return nil, err
	}
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(filepath.Join(data, databaseFile+suffix))
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, databaseFile+suffix), b, 0o600)
		}
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, databaseFile))}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &database{db, dir}, nil
}

// Close closes and deletes the copy.
func (d *database) Close() error { return errors.Join(d.DB.Close(), os.RemoveAll(d.dir)) }

// each calls row for every row of a query and stops at its first error.
func (d *database) each(row func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := d.Query(query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return rows.Err()
}

// sums returns the result of a query for (key, number) as a map.
func (d *database) sums(query string) (map[string]int64, error) {
	out := map[string]int64{}
	return out, d.each(func(scan func(...any) error) error {
		var key string
		var n int64
		err := scan(&key, &n)
		out[key] = n
		return err
	}, query)
}

// database runs SQLite's integrity and foreign key checks.
func (c *checker) database() error {
	err := c.db.each(func(scan func(...any) error) error {
		var text string
		err := scan(&text)
		if err == nil && text != "ok" {
			c.found("SQL", "integrity_check: %s", text)
		}
		return err
	}, "PRAGMA integrity_check")
	if err != nil {
		return err
	}
	return c.db.each(func(scan func(...any) error) error {
		var table, parent string
		var row, key sql.NullInt64
		err := scan(&table, &row, &parent, &key)
		if err == nil {
			c.found("SQL", "a row of %s refers to a row of %s that is not there", table, parent)
		}
		return err
	}, "PRAGMA foreign_key_check")
}
