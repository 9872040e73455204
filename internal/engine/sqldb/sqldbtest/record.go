package sqldbtest

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"example.org/smartdrive/internal/engine/sqldb"
)

// StatementsVariable names the environment variable with a directory. If it is set, each test
// binary writes there the SQL statements that the program executed in its tests, for test/plans,
// which checks their query plans. Statements of the tests themselves are not recorded.
const StatementsVariable = "SMARTDRIVE_TEST_STATEMENTS"

// Statement is one line of such a file, in JSON.
type Statement struct {
	Dialect string `json:"dialect"` // sqlite | mysql
	Text    string `json:"text"`    // in one line
	Args    []any  `json:"args"`    // of one execution; long values are cut
	From    string `json:"from"`    // the function that executed it
}

// recorder writes each statement once to the file of this process.
type recorder struct {
	texts sync.Map // dialect and text of executed statements, as a quick check
	mu    sync.Mutex
	known map[string]bool // by dialect and Normal text; guarded by mu
	file  *os.File        // guarded by mu
}

// record is the recorder, or nil if the variable is not set. Then no connector is wrapped and tests
// run at full speed.
var record = sync.OnceValue(func() *recorder {
	dir := os.Getenv(StatementsVariable)
	if dir == "" {
		return nil
	}
	file, err := openRecord(dir)
	if err != nil {
		panic(fmt.Errorf("record statements: %w", err))
	}
	return &recorder{known: map[string]bool{}, file: file}
})

// openRecord opens the file of this test binary, PACKAGE@DATABASE.BUILD.jsonl, and deletes files of
// older builds. So the file exists even if "go test" uses a cached result. Processes of one build
// append to the same file.
func openRecord(dir string) (*os.File, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	about, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	stem := filepath.Join(dir, RecordOf(here, OnMySQL()))
	path := fmt.Sprintf("%s.%x.jsonl", stem, about.ModTime().UnixNano())
	old, err := filepath.Glob(stem + ".*")
	if err != nil {
		return nil, err
	}
	for _, name := range old {
		if name != path {
			_ = os.Remove(name) // another process may have deleted it
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// RecordOf returns the prefix of the file names for a package's tests, up to the first dot.
func RecordOf(directory string, onMySQL bool) string {
	path := filepath.ToSlash(directory)
	if _, inside, found := strings.Cut(path, "/internal/"); found {
		path = "internal/" + inside
	} else {
		path = filepath.Base(path)
	}
	database := "sqlite"
	if onMySQL {
		database = "mysql"
	}
	return strings.ReplaceAll(path, "/", "+") + "@" + database
}

// recorded wraps a connector so that its statements are recorded. Without recording it returns open
// unchanged; nil means the default connector.
func recorded(open func(dsn string) (driver.Connector, error)) func(dsn string) (driver.Connector, error) {
	if record() == nil {
		return open
	}
	if open == nil {
		open = sqldb.NewConnector
	}
	return func(dsn string) (driver.Connector, error) {
		real, err := open(dsn)
		if _, wrapped := real.(connector); wrapped || err != nil {
			return real, err
		}
		return wrap(real, dsn, func(_ Call, do func() error) error { return do() }), nil
	}
}

// dialectOf returns the dialect of a data source.
func dialectOf(dsn string) string {
	if strings.HasPrefix(dsn, "file:") {
		return sqldb.SQLite.String()
	}
	return sqldb.MySQL.String()
}

// sample writes a statement with sample arguments and its caller to the file of recorded
// statements, once per text. It does nothing on a nil recorder, and panics if the file cannot be
// written.
func (r *recorder) sample(dialect, query string, args []driver.NamedValue) {
	if r == nil {
		return
	}
	executed := [2]string{dialect, query}
	if _, seen := r.texts.Load(executed); seen {
		return
	}
	from, found := caller()
	if !found {
		return
	}
	r.texts.Store(executed, true)
	s := Statement{Dialect: dialect, Text: strings.Join(strings.Fields(query), " "), Args: make([]any, len(args)), From: from}
	for i, a := range args {
		s.Args[i] = sample(a.Value)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if key := dialect + " " + Normal(s.Text); !r.known[key] {
		r.known[key] = true
		if err := r.write(s); err != nil {
			panic(fmt.Errorf("record a statement: %w", err))
		}
	}
}

// caller returns the function of the program that called the database. It returns false if the
// caller is a test, a library or sqldb itself.
func caller() (name string, found bool) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		name, ours := strings.CutPrefix(frame.Function, "example.org/smartdrive/internal/")
		switch path, _, _ := strings.Cut(name, "."); {
		case strings.HasPrefix(frame.Function, "database/sql."), ours && (path == "engine/sqldb" || path == "engine/sqldb/sqldbtest"):
			if !more {
				return "", false
			}
		default:
			return name, ours && !strings.HasSuffix(path, "test") && !strings.HasSuffix(frame.File, "_test.go")
		}
	}
}

// write appends a line by a single call, because other processes append to the same file.
func (r *recorder) write(s Statement) error {
	var line bytes.Buffer
	text := json.NewEncoder(&line)
	text.SetEscapeHTML(false)
	if err := text.Encode(s); err != nil {
		return err
	}
	_, err := r.file.Write(line.Bytes())
	return err
}

// longest bounds the recorded bytes of an argument: enough for ids and names.
const longest = 200

// sample returns an argument, cut to longest.
func sample(v any) any {
	switch v := v.(type) {
	case string:
		return v[:min(len(v), longest)]
	case []byte:
		return map[string][]byte{"bytes": v[:min(len(v), longest)]}
	}
	return v
}

// Normal returns a statement in one line, with at most two placeholders per list, because the
// length of a list does not change the plan.
func Normal(query string) string {
	query = strings.Join(strings.Fields(query), " ")
	query = strings.ReplaceAll(strings.ReplaceAll(query, "?,", "?, "), "?,  ", "?, ")
	for strings.Contains(query, "?, ?, ?") {
		query = strings.ReplaceAll(query, "?, ?, ?", "?, ?")
	}
	return query
}
