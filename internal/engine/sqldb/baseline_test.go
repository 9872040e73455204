package sqldb_test

import (
	"archive/zip"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// empty returns the options of a database without a schema.
func empty(t *testing.T) sqldb.Options {
	t.Helper()
	if sqldbtest.OnMySQL() {
		source, _ := sqldbtest.Empty(t)
		return sqldb.Options{MySQL: source, Log: slog.New(slog.DiscardHandler)}
	}
	return sqldb.Options{Path: filepath.Join(t.TempDir(), "smartdrive.db")}
}

// develop makes a database as the development versions before 0.1.0 left it after the migrations up
// to version. The archive holds those migrations, without their comments.
func develop(t *testing.T, version int64) sqldb.Options {
	t.Helper()
	archive, err := zip.OpenReader("testdata/development.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	engine, dir, opt := database.DialectSQLite3, "sqlite", empty(t)
	if opt.MySQL != "" {
		engine, dir = database.DialectMySQL, "mysql"
	}
	files, err := fs.Sub(archive, dir)
	if err != nil {
		t.Fatal(err)
	}
	db := plain(t, opt)
	provider, err := goose.NewProvider(engine, db, files)
	if err == nil {
		_, err = provider.UpTo(t.Context(), version)
	}
	if err == nil {
		_, err = db.ExecContext(t.Context(), "INSERT INTO meta (name, value) VALUES ('kept', 'x')")
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return opt
}

// plain opens a database without looking at its schema.
func plain(t *testing.T, opt sqldb.Options) *sql.DB {
	t.Helper()
	dsn := "file:" + opt.Path + "?_pragma=journal_mode(WAL)"
	if opt.MySQL != "" {
		at := regexp.MustCompile(`^mysql://(.*@)(.*)/(.*)$`).FindStringSubmatch(opt.MySQL)
		dsn = fmt.Sprintf("%stcp(%s)/%s", at[1], at[2], at[3])
	}
	connector, err := sqldb.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return sql.OpenDB(connector)
}

// list returns the rows of a query, each as one text.
func list(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query) //nolint:sqlclosecheck // Scan closes them
	all, err := sqldb.Scan(rows, err, func(s *string, scan func(...any) error) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		cells, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range cells {
			to[i] = &cells[i]
		}
		err = scan(to...)
		*s = fmt.Sprint(cells)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return all
}

// schema describes the tables of a database with columns, indexes and constraints, and the number
// of their rows. Comments and spaces of SQLite's statements are left out.
func schema(t *testing.T, opt sqldb.Options) (all []string) {
	t.Helper()
	db := plain(t, opt)
	defer db.Close()
	names := "SELECT name FROM sqlite_master WHERE type = 'table'"
	if opt.MySQL != "" {
		names = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
	} else {
		comment, space := regexp.MustCompile(`--[^\n]*`), regexp.MustCompile(`\s*([(),])\s*|\s+`)
		for _, made := range list(t, db, "SELECT type, name, sql FROM sqlite_master ORDER BY name") {
			all = append(all, space.ReplaceAllString(comment.ReplaceAllString(made, ""), " $1"))
		}
	}
	tables := list(t, db, names)
	slices.Sort(tables)
	for _, cell := range tables {
		name := strings.TrimSuffix(strings.TrimPrefix(cell, "[{"), " true}]")
		if opt.MySQL != "" {
			made := list(t, db, "SHOW CREATE TABLE "+name)[0]
			all = append(all, regexp.MustCompile(` AUTO_INCREMENT=\d+`).ReplaceAllString(made, ""))
		}
		if name != "sqlite_sequence" {
			all = append(all, name+list(t, db, "SELECT COUNT(*) FROM "+name)[0])
		}
	}
	return append(all, list(t, db, "SELECT version_id, is_applied FROM goose_db_version ORDER BY version_id")...)
}

// TestDevelopmentDatabaseIsStamped: a database of the last development version keeps its rows. Its
// schema and its version table equal those of a new database, and later migrations follow.
func TestDevelopmentDatabaseIsStamped(t *testing.T) {
	t.Parallel()
	fresh, old := empty(t), develop(t, 119)
	for range 2 { // stamped once
		for _, opt := range []sqldb.Options{fresh, old} {
			db, err := sqldb.Open(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			if current, err := db.HasCurrentFormat(t.Context()); err != nil || !current {
				t.Errorf("the format is current: %t, %v", current, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	db := plain(t, old)
	defer db.Close()
	if kept := list(t, db, "SELECT value FROM meta WHERE name = 'kept'"); len(kept) != 1 {
		t.Errorf("the rows of before: %q", kept)
	}
	if _, err := db.ExecContext(t.Context(), "DELETE FROM meta"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schema(t, fresh), schema(t, old)); diff != "" {
		t.Errorf("a new and a stamped database differ (-new +stamped):\n%s", diff)
	}
}

// TestOlderDevelopmentDatabaseIsRefused: nothing is changed in a database that would need a
// migration that no longer exists.
func TestOlderDevelopmentDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, version := range []int64{1, 9, 115} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			opt := develop(t, version)
			var file []byte
			if opt.Path != "" {
				file = read(t, opt.Path)
			}
			before := schema(t, opt)
			want := fmt.Sprintf("has format %d, of a development version before 0.1.0", version)
			opt.OnSchemaChange = func(context.Context, *sqldb.DB, func() error) error {
				t.Error("the schema was to be changed")
				return nil
			}
			if _, err := sqldb.Open(t.Context(), opt); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "last build before 0.1.0") {
				t.Errorf("it is opened: %v", err)
			}
			if diff := cmp.Diff(before, schema(t, opt)); diff != "" {
				t.Errorf("the refusal changed the database:\n%s", diff)
			}
			if opt.Path != "" && !bytes.Equal(file, read(t, opt.Path)) {
				t.Error("the refusal changed the file")
			}
			opt.ReadOnly = true
			db, err := sqldb.Open(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.CheckFormat(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("read-only: %v", err)
			}
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
