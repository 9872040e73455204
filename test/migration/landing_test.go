package migration

import (
	"database/sql"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql" // what is judged is read with plain SQL
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"example.org/smartdrive/internal/engine/sqldb"
)

// The independent checker judges directories. What lies at MariaDB and S3 is brought into one for
// it, by row and by object, as it is.

// land makes a data directory of a database and a bucket.
func land(t *testing.T, db, contents string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "landed")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	landRows(t, db, filepath.Join(dir, "smartdrive.db"))
	landContents(t, contents, dir)
	return dir
}

// landRows copies every row into a new file. Bookkeeping of migrations and the version of the
// schema are its own.
func landRows(t *testing.T, source, path string) {
	t.Helper()
	empty, err := sqldb.Open(t.Context(), sqldb.Options{Path: path})
	if err == nil {
		err = empty.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	from, to := openMySQL(t, source), openFile(t, path)
	for _, table := range column(t, from, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'") {
		if !strings.HasPrefix(table, "migration_") && table != "goose_db_version" {
			landTable(t, from, to, table)
		}
	}
}

func landTable(t *testing.T, from, to *sql.DB, table string) {
	t.Helper()
	kinds := map[string]string{}
	rows, err := to.QueryContext(t.Context(), "SELECT name, type FROM pragma_table_info(?)", table)
	scan(t, rows, err, func(scan func(...any) error) error {
		var name, kind string
		err := scan(&name, &kind)
		kinds[name] = kind
		return err
	})
	rows, err = from.QueryContext(t.Context(), "SELECT * FROM `"+table+"`")
	if err != nil {
		t.Fatal(err)
	}
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	insert := fmt.Sprintf("INSERT INTO `%s` (`%s`) VALUES (?%s)", table, strings.Join(names, "`, `"), strings.Repeat(", ?", len(names)-1))
	scan(t, rows, nil, func(scan func(...any) error) error {
		raw, dest, args := make([]sql.RawBytes, len(names)), make([]any, len(names)), make([]any, len(names))
		for i := range raw {
			dest[i] = &raw[i]
		}
		if err := scan(dest...); err != nil {
			return err
		}
		for i, v := range raw {
			switch {
			case v == nil:
			case kinds[names[i]] == "BLOB":
				args[i] = []byte(v)
			default: // SQLite makes numbers of texts where the column has some
				args[i] = string(v)
			}
		}
		_, err := to.ExecContext(t.Context(), insert, args...)
		return err
	})
}

func openMySQL(t *testing.T, source string) *sql.DB {
	t.Helper()
	u, err := url.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	return opened(t, "mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path)
}

func openFile(t *testing.T, path string) *sql.DB {
	t.Helper()
	return opened(t, "sqlite", "file:"+filepath.ToSlash(path)+"?_pragma=foreign_keys(0)&_pragma=synchronous(0)")
}

func opened(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func column(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	scan(t, rows, err, func(scan func(...any) error) error {
		var one string
		err := scan(&one)
		all = append(all, one)
		return err
	})
	return all
}

func scan(t *testing.T, rows *sql.Rows, err error, row func(scan func(...any) error) error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// landContents fetches every object below the place.
func landContents(t *testing.T, contents, dir string) {
	t.Helper()
	s3, bucket, prefix := store(t, contents)
	for o := range s3.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if err := fetch(t, s3, bucket, o.Key, filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(o.Key, prefix)))); err != nil {
			t.Fatal(err)
		}
	}
}

func store(t *testing.T, contents string) (s3 *minio.Client, bucket, prefix string) {
	t.Helper()
	u, err := url.Parse(contents)
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	s3, err = minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	bucket, prefix, _ = strings.Cut(strings.Trim(u.Path, "/"), "/")
	return s3, bucket, prefix + "/"
}

func fetch(t *testing.T, s3 *minio.Client, bucket, key, path string) error {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	in, err := s3.GetObject(t.Context(), bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer in.Close()
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}
