package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"example.org/smartdrive/internal/engine/sqldb"
)

var schemas = comparison{
	name:  "schemas",
	id:    "C6",
	title: text{"Two schemas: the owner in the file table, or a relation table", "两种表结构：用户写在文件表里，或用关系表"},
	columns: []text{
		{"database, schema", "数据库、表结构"},
		{"files", "文件数"},
		{"list 100, p50 ms", "列出 100 个，p50 ms"},
		{"p99 ms", "p99 ms"},
		{"rename, p50 ms", "改名，p50 ms"},
		{"instant upload, p50 ms", "秒传，p50 ms"},
		{"delete, p50 ms", "删除，p50 ms"},
		{"move a shared content, ms", "移动共享内容，ms"},
		{"bytes per file", "每文件字节"},
		{"contents stored twice, of 100", "重复存储的内容，每百个"},
	},
	needs: []string{"mysql"},
	run:   runSchemas,
}

// Files per folder, and folders per user.
const (
	folderSize  = 100
	userFolders = 10
)

// place is a database with the tables of one schema.
type place struct {
	name  string
	db    *sql.DB
	bytes string // query for the size of its tables
}

// schema is one of the two ways to store which user has which file.
type schema struct {
	name   text
	create []string
	tables []row // rows to insert for each file; see fillTable
	// list selects the files of (user, folder).
	list string
	// rename is an update with the arguments (new name, user, folder, name).
	rename string
	path   string // counts the storage places of a digest
	// instant adds a file with the content of a digest. A new content is stored at path.
	instant func(ctx context.Context, tx *sql.Tx, user int, name, md5, path string) error
	// remove deletes a file and finds out whether its content is still used.
	remove func(ctx context.Context, tx *sql.Tx, user, folder int, name string) error
	move   string // changes the path of a digest's content
}

// row inserts a table's row of a file; ok is false if the file needs none.
type row struct {
	insert string
	values func(f file) (args []any, ok bool)
}

// file is the i-th initial file.
type file struct {
	i, content   int
	user, folder int
	fresh        bool // first file with its content
}

// fileAt returns the i-th file. Two files share each content, and all users share content 0.
func fileAt(i, files int) file {
	f := file{i: i, content: i % (files / 2), user: i / (folderSize * userFolders), folder: i / folderSize % userFolders}
	f.fresh = i < files/2
	if i%1000 == 0 { // each user has it
		f.content, f.fresh = 0, i == 0
	}
	return f
}

func (f file) name() string { return fmt.Sprintf("document %07d.pdf", f.i) }

func md5Of(content int) string { return fmt.Sprintf("%032x", uint64(content+1)*0x9E3779B97F4A7C15) }

func storedAt(content int) string { return fmt.Sprintf("2026/11/28/%036d", content) }

var bothSchemas = []schema{
	{
		name: text{"owner in the file table", "用户写在文件表里"},
		create: []string{
			"CREATE TABLE files (user_id INT NOT NULL, folder_id INT NOT NULL, name VARCHAR(255) NOT NULL, md5 CHAR(32) NOT NULL, size BIGINT NOT NULL, path VARCHAR(100) NOT NULL, PRIMARY KEY (user_id, folder_id, name))",
			"CREATE INDEX files_md5 ON files (md5)",
		},
		tables: []row{{"INSERT INTO files (user_id, folder_id, name, md5, size, path) VALUES ", func(f file) ([]any, bool) {
			return []any{f.user, f.folder, f.name(), md5Of(f.content), 1 << 20, storedAt(f.content)}, true
		}}},
		list:   "SELECT name, size FROM files WHERE user_id = ? AND folder_id = ? ORDER BY name LIMIT 100",
		rename: "UPDATE files SET name = ? WHERE user_id = ? AND folder_id = ? AND name = ?",
		path:   "SELECT COUNT(DISTINCT path) FROM files WHERE md5 = ?",
		instant: func(ctx context.Context, tx *sql.Tx, user int, name, md5, path string) error {
			var there string
			err := tx.QueryRowContext(ctx, "SELECT path FROM files WHERE md5 = ? LIMIT 1", md5).Scan(&there)
			if errors.Is(err, sql.ErrNoRows) {
				there, err = path, nil
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, "INSERT INTO files (user_id, folder_id, name, md5, size, path) VALUES (?, 0, ?, ?, 1, ?)", user, name, md5, there)
			}
			return err
		},
		remove: func(ctx context.Context, tx *sql.Tx, user, folder int, name string) error {
			var md5 string
			var others int
			err := tx.QueryRowContext(ctx, "SELECT md5 FROM files WHERE user_id = ? AND folder_id = ? AND name = ?", user, folder, name).Scan(&md5)
			if err == nil {
				_, err = tx.ExecContext(ctx, "DELETE FROM files WHERE user_id = ? AND folder_id = ? AND name = ?", user, folder, name)
			}
			if err == nil {
				err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM files WHERE md5 = ? LIMIT 1) AS one", md5).Scan(&others)
			}
			return err
		},
		move: "UPDATE files SET path = ? WHERE md5 = ?",
	},
	{
		name: text{"relation table", "关系表"},
		create: []string{
			"CREATE TABLE contents (id INT NOT NULL PRIMARY KEY, md5 CHAR(32) NOT NULL UNIQUE, size BIGINT NOT NULL, path VARCHAR(100) NOT NULL, refs INT NOT NULL)",
			"CREATE TABLE user_files (user_id INT NOT NULL, folder_id INT NOT NULL, name VARCHAR(255) NOT NULL, content_id INT NOT NULL, PRIMARY KEY (user_id, folder_id, name))",
			"CREATE INDEX user_files_content ON user_files (content_id)",
		},
		tables: []row{
			{"INSERT INTO contents (id, md5, size, path, refs) VALUES ", func(f file) ([]any, bool) {
				return []any{f.content, md5Of(f.content), 1 << 20, storedAt(f.content), 2}, f.fresh
			}},
			{"INSERT INTO user_files (user_id, folder_id, name, content_id) VALUES ", func(f file) ([]any, bool) {
				return []any{f.user, f.folder, f.name(), f.content}, true
			}},
		},
		list:   "SELECT f.name, c.size FROM user_files f JOIN contents c ON c.id = f.content_id WHERE f.user_id = ? AND f.folder_id = ? ORDER BY f.name LIMIT 100",
		rename: "UPDATE user_files SET name = ? WHERE user_id = ? AND folder_id = ? AND name = ?",
		path:   "SELECT COUNT(*) FROM contents WHERE md5 = ?",
		instant: func(ctx context.Context, tx *sql.Tx, user int, name, md5, path string) error {
			var id int
			err := tx.QueryRowContext(ctx, "SELECT id FROM contents WHERE md5 = ?", md5).Scan(&id)
			if errors.Is(err, sql.ErrNoRows) {
				id = 1_000_000_000 + user
				_, err = tx.ExecContext(ctx, "INSERT INTO contents (id, md5, size, path, refs) VALUES (?, ?, 1, ?, 0)", id, md5, path)
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, "INSERT INTO user_files (user_id, folder_id, name, content_id) VALUES (?, 0, ?, ?)", user, name, id)
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, "UPDATE contents SET refs = refs + 1 WHERE id = ?", id)
			}
			return err
		},
		remove: func(ctx context.Context, tx *sql.Tx, user, folder int, name string) error {
			var id int
			err := tx.QueryRowContext(ctx, "SELECT content_id FROM user_files WHERE user_id = ? AND folder_id = ? AND name = ?", user, folder, name).Scan(&id)
			if err == nil {
				_, err = tx.ExecContext(ctx, "DELETE FROM user_files WHERE user_id = ? AND folder_id = ? AND name = ?", user, folder, name)
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, "UPDATE contents SET refs = refs - 1 WHERE id = ?", id)
			}
			return err
		},
		move: "UPDATE contents SET path = ? WHERE md5 = ?",
	},
}

func runSchemas(ctx context.Context, b *bench, t *table) error {
	files := pick(b, 1_000_000, 4_000)
	t.set(
		text{
			fmt.Sprintf("users of %d folders with %d files each; each content belongs to two users, and one to every user; path is where the content is stored", userFolders, folderSize),
			fmt.Sprintf("每个用户 %d 个文件夹，每个文件夹 %d 个文件；每个内容属于两个用户，另有一个内容属于所有用户；path 是内容的存放位置", userFolders, folderSize),
		},
		text{
			"each operation is one transaction on one connection; deleting finds out whether the content is used by another file",
			"每个操作是一个连接上的一个事务；删除时要查明内容是否还被别的文件使用",
		},
		text{
			"stored twice: 8 users at once bring the same new content, which each looks for first; a duplicate key is run again",
			"重复存储：8 个用户同时带来同一个新内容，各自先查；遇到唯一键冲突则重做",
		},
	)
	for _, s := range bothSchemas {
		db, err := b.mysql(ctx, 8)
		if err != nil {
			return err
		}
		version, err := mysqlVersion(ctx, db)
		if err != nil {
			return err
		}
		p := place{version, db, "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = DATABASE()"}
		if err := measureSchema(ctx, b, t, p, s, files); err != nil {
			return fmt.Errorf("%s: %w", s.name.en, err)
		}
	}
	for _, s := range bothSchemas {
		dir, err := b.tempDir()
		if err != nil {
			return err
		}
		db, err := openSQLite(filepath.Join(dir, "db"), 8)
		if err != nil {
			return err
		}
		b.later(db.Close)
		var version string
		if err := db.QueryRowContext(ctx, "SELECT 'SQLite ' || sqlite_version()").Scan(&version); err != nil {
			return err
		}
		p := place{version, db, "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"}
		if err := measureSchema(ctx, b, t, p, s, files); err != nil {
			return fmt.Errorf("%s: %w", s.name.en, err)
		}
	}
	return nil
}

// openSQLite opens a file with a write-ahead log that is synced at each commit.
func openSQLite(path string, connections int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err == nil {
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	return db, err
}

// measureSchema fills the tables, measures each operation, and adds a row.
func measureSchema(ctx context.Context, b *bench, t *table, p place, s schema, files int) error {
	b.say("  %s, %s: filling", p.name, s.name.en)
	if err := execAll(ctx, p.db, s.create...); err != nil {
		return err
	}
	for _, r := range s.tables {
		if err := fillTable(ctx, p.db, r, files); err != nil {
			return err
		}
	}
	var size int64
	if strings.HasPrefix(p.name, "SQLite") {
		if _, err := p.db.ExecContext(ctx, "ANALYZE"); err != nil {
			return err
		}
	} else if err := analyze(ctx, p.db, s); err != nil {
		return err
	}
	if err := p.db.QueryRowContext(ctx, p.bytes).Scan(&size); err != nil {
		return err
	}
	b.say("  %s, %s: measuring", p.name, s.name.en)
	times := pick(b, 1000, 20)
	var lists, renames, instants, removes calls
	inTx := func(c *calls, do func(tx *sql.Tx) error) error {
		began := time.Now()
		err := transaction(ctx, p.db, do)
		c.add(time.Since(began))
		return err
	}
	for n := range times {
		f := fileAt(n*7919%files, files)
		began := time.Now()
		got, err := countRows(ctx, p.db, s.list, f.user, f.folder)
		if err != nil || got < folderSize/2 {
			return fmt.Errorf("%d files are listed: %w", got, err)
		}
		lists.add(time.Since(began))
		if err := inTx(&renames, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, s.rename, "renamed "+f.name(), f.user, f.folder, f.name())
			return err
		}); err != nil {
			return err
		}
		if err := inTx(&instants, func(tx *sql.Tx) error {
			return s.instant(ctx, tx, f.user, fmt.Sprintf("copy %d", n), md5Of((f.content+1)%(files/2)), "unused")
		}); err != nil {
			return err
		}
		if err := inTx(&removes, func(tx *sql.Tx) error { return s.remove(ctx, tx, f.user, f.folder, "renamed "+f.name()) }); err != nil {
			return err
		}
	}
	began := time.Now()
	if _, err := p.db.ExecContext(ctx, s.move, "2026/12/01/elsewhere", md5Of(0)); err != nil {
		return err
	}
	moved := time.Since(began)
	twice, err := storedTwice(ctx, p.db, s, pick(b, 100, 5))
	if err != nil {
		return err
	}
	name := text{p.name + "; " + s.name.en, p.name + "；" + s.name.zh}
	t.row(name, files, lists.percentile(50), lists.percentile(99), renames.percentile(50), instants.percentile(50), removes.percentile(50),
		milliseconds(moved), float64(size)/float64(files), twice)
	return nil
}

// fillTable inserts the rows of all files in one transaction, many per statement.
func fillTable(ctx context.Context, db *sql.DB, r row, files int) error {
	return transaction(ctx, db, func(tx *sql.Tx) error {
		var args []any
		rows, width := 0, 0
		flush := func() error {
			if rows == 0 {
				return nil
			}
			marks := "(?" + strings.Repeat(", ?", width-1) + ")"
			_, err := tx.ExecContext(ctx, r.insert+marks+strings.Repeat(", "+marks, rows-1), args...)
			args, rows = args[:0], 0
			return err
		}
		for i := range files {
			values, ok := r.values(fileAt(i, files))
			if !ok {
				continue
			}
			args, width = append(args, values...), len(values)
			if rows++; rows == 500 {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	})
}

// analyze updates the table sizes that the server reports.
func analyze(ctx context.Context, db *sql.DB, s schema) error {
	for _, c := range s.create {
		if name, ok := strings.CutPrefix(c, "CREATE TABLE "); ok {
			if _, err := countRows(ctx, db, "ANALYZE TABLE "+strings.Fields(name)[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

func countRows(ctx context.Context, db *sql.DB, query string, args ...any) (n int, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

func transaction(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// storedTwice lets 8 users concurrently add each of several new contents, and returns the
// percentage of contents that were stored in several places.
func storedTwice(ctx context.Context, db *sql.DB, s schema, contents int) (twice int, err error) {
	for content := range contents {
		md5 := fmt.Sprintf("%032d", 900_000+content)
		err := parallel(ctx, 8, func(ctx context.Context, i int) error {
			user := 1_000_000 + content*8 + i
			bring := func(tx *sql.Tx) error {
				return s.instant(ctx, tx, user, "new", md5, fmt.Sprintf("new/%d", user))
			}
			err := transaction(ctx, db, bring)
			for try := 0; err != nil && try < 5 && (sqldb.IsDuplicate(err) || isDeadlock(err)); try++ {
				err = transaction(ctx, db, bring)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		var places int
		if err := db.QueryRowContext(ctx, s.path, md5).Scan(&places); err != nil {
			return 0, err
		}
		if places > 1 {
			twice++
		}
	}
	return twice * 100 / contents, nil
}
