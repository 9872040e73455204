package export

import (
	"archive/zip"
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/export/fetch"
)

// world is an account with a drive, a web server with documents, and a clock, shared by any number
// of workers.
type world struct {
	at    sqldb.Options
	db    *sqldb.DB
	store blob.Store
	tree  *tree.Tree
	users *account.Users
	who   drive.Who
	root  drive.NodeID
	clock atomic.Int64
	web   *httptest.Server
	serve http.HandlerFunc

	mu   sync.Mutex
	gets map[string]int // requests of the web server, by path
}

// start is noon of 2026-11-21.
const start = 1_795_262_400_000

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{at: sqldbtest.At(t, sqldb.Options{}), gets: map[string]int{}}
	w.db = w.open(t, sqldb.NewConnector)
	w.store = treetest.Store(t)
	w.clock.Store(start)
	w.tree = tree.New(tree.Options{Now: func() time.Time { return drive.Time(w.clock.Load()).Std() }})
	cheap := account.Options{Cost: treetest.Cheap}
	w.users = account.NewUsers(w.db, account.NewAuth(w.db, cheap), cheap)
	w.serve = func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/missing") {
			http.NotFound(rw, r)
			return
		}
		_, _ = io.WriteString(rw, "%PDF-1.7 the document "+r.URL.Path)
	}
	w.web = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.gets[r.URL.Path]++
		w.mu.Unlock()
		w.serve(rw, r)
	}))
	t.Cleanup(w.web.Close)
	w.makeUser(t)
	return w
}

func (w *world) makeUser(t testing.TB) {
	t.Helper()
	made := treetest.New(t, w.drive(), w.users, "")
	w.who, w.root = made.Who, made.Root
}

func (w *world) drive() treetest.Drive {
	return treetest.Drive{DB: w.db, Tree: w.tree, Store: w.store, Who: w.who, Root: w.root}
}

func (w *world) open(t testing.TB, connector func(string) (driver.Connector, error)) *sqldb.DB {
	t.Helper()
	return sqldbtest.OpenAt(t, w.at, connector)
}

func (w *world) write(t testing.TB, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	treetest.Write(t, w.db, fn)
}

// process returns a worker on a machine of its own.
func (w *world) process(db *sqldb.DB, name string, change ...func(*Options)) *Exports {
	opt := Options{
		DB: db, Events: outbox.New(db, outbox.Options{Source: "smartdrive/test"}), Tree: w.tree, Store: w.store, Users: w.users, Instance: name, Machine: name, Generation: 1, MinFree: -1,
		Secret: func(context.Context) ([]byte, error) { return []byte("secret"), nil },
		Fetch:  fetch.Options{Hosts: func() []string { return []string{strings.TrimPrefix(w.web.URL, "http://")} }, Private: true},
		Clock:  func(context.Context) (drive.Time, error) { return drive.Time(w.clock.Load()), nil },
		Log:    slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&opt)
	}
	return New(opt)
}

func (w *world) advance(d time.Duration) { w.clock.Add(d.Milliseconds()) }

// put stores a file at a path and creates its folders.
func (w *world) put(t testing.TB, at, text string) drive.NodeID {
	t.Helper()
	n, err := w.drive().Put(t, at, text, tree.File{Conflict: drive.ConflictFail, MTime: drive.Time(w.clock.Load()), Mime: "application/pdf"})
	if err != nil {
		t.Fatal(err)
	}
	return n.ID
}

// purge deletes a node permanently.
func (w *world) purge(t testing.TB, id drive.NodeID) {
	t.Helper()
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := w.tree.Find(ctx, tx, w.who.Account, id)
		if err != nil {
			return err
		}
		if _, err := w.tree.Trash(ctx, tx, w.who.Account, id, n.Rev); err != nil {
			return err
		}
		p, err := w.tree.PurgeStep(ctx, tx, w.who.Account, id, 100)
		if err != nil {
			return err
		}
		for _, v := range p.Versions {
			if err := (quota.Ledger{}).Apply(ctx, tx, w.who.Account, quota.Move{Finished: -v.Size}); err != nil {
				return err
			}
			if err := (content.Content{}).Release(ctx, tx, w.who.Account, v.Blob); err != nil {
				return err
			}
		}
		return nil
	})
}

// trash moves a node to the trash.
func (w *world) trash(t testing.TB, id drive.NodeID) {
	t.Helper()
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := w.tree.Find(ctx, tx, w.who.Account, id)
		if err == nil {
			_, err = w.tree.Trash(ctx, tx, w.who.Account, id, n.Rev)
		}
		return err
	})
}

// move moves a node to another folder.
func (w *world) move(t testing.TB, n tree.Node, to drive.NodeID) {
	t.Helper()
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		below, err := w.tree.Extent(ctx, tx, n.ID)
		if err == nil {
			_, err = w.tree.Edit(ctx, tx, w.who.Account, n.ID, tree.Edit{Parent: to, Conflict: drive.ConflictFail, Extent: below})
		}
		return err
	})
}

func (w *world) folder(t testing.TB, at string) drive.NodeID {
	t.Helper()
	path, err := drive.ParsePath(at)
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.tree.Resolve(t.Context(), w.db, w.who.Account, path)
	if err != nil {
		t.Fatal(err)
	}
	return n.ID
}

func (w *world) limit(t testing.TB, total drive.ByteSize) {
	t.Helper()
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		return quota.Ledger{}.SetTotal(ctx, tx, w.who.Account, &total)
	})
}

func (w *world) create(t testing.TB, e *Exports, in Request) View {
	t.Helper()
	v, err := e.Create(t.Context(), w.who, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// claim claims a batch; nil: none is due.
func (w *world) claim(t testing.TB, e *Exports) *batch {
	t.Helper()
	b, err := e.queue.claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// finish runs a process until no work is left for it.
func (w *world) finish(t testing.TB, e *Exports) {
	t.Helper()
	for {
		b, err := e.queue.claim(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return
		}
		e.workers.work(t.Context(), b)
	}
}

func (w *world) get(t testing.TB, e *Exports, id drive.ExportID) View {
	t.Helper()
	v, err := e.Get(t.Context(), w.who, id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// download downloads the whole zip, reads it with archive/zip, and returns the entries by name.
func (w *world) download(t testing.TB, e *Exports, id drive.ExportID) (raw []byte, files map[string]string) {
	t.Helper()
	d, err := e.Open(t.Context(), w.who, id)
	if err != nil {
		t.Fatal(err)
	}
	return served(t, d)
}

// served serves an open download; see download.
func served(t testing.TB, d Download) (raw []byte, files map[string]string) {
	t.Helper()
	rec := httptest.NewRecorder()
	d.Serve(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "somebody", nil)
	raw = rec.Body.Bytes()
	if rec.Code != http.StatusOK || drive.ByteSize(len(raw)) != d.Size || rec.Header().Get("ETag") != d.ETag {
		t.Fatalf("status %d, %d bytes of %d, ETag %s of %s", rec.Code, len(raw), d.Size, rec.Header().Get("ETag"), d.ETag)
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("read %s: %v", f.Name, err)
		}
		files[f.Name] = string(text)
	}
	return raw, files
}

// check compares references, balances and counts with their rows (X1, X2, X4).
func (w *world) check(t testing.TB) {
	t.Helper()
	for what, query := range map[string]string{
		"a blob has other references than rows": `SELECT COUNT(*) FROM blobs b WHERE refs <> (SELECT COUNT(*) FROM versions v WHERE v.blob_id = b.id) +
			(SELECT COUNT(*) FROM export_pins p WHERE p.blob_id = b.id)`,
		"a pin has no blob": `SELECT COUNT(*) FROM export_pins p LEFT JOIN blobs b ON b.id = p.blob_id WHERE p.blob_id <> '' AND b.id IS NULL`,
		"a balance is wrong": `SELECT COUNT(*) FROM ledgers l WHERE finished <> (SELECT COALESCE(SUM(size), 0) FROM versions v WHERE v.account_id = l.account_id) +
			(SELECT COALESCE(SUM(charged), 0) FROM export_pins p WHERE p.account_id = l.account_id)`,
		"an entry is in both tables": `SELECT COUNT(*) FROM export_pins p JOIN export_errors x ON x.export_id = p.export_id AND x.n = p.n`,
		"a count is wrong": `SELECT COUNT(*) FROM exports e WHERE released_at = 0 AND state NOT IN ('cancelled', 'expired', 'failed') AND
			(collected <> (SELECT COUNT(*) FROM export_pins p WHERE p.export_id = e.id) OR failed <> (SELECT COUNT(*) FROM export_errors x WHERE x.export_id = e.id))`,
		"a released batch holds something": `SELECT COUNT(*) FROM export_pins p JOIN exports e ON e.id = p.export_id WHERE e.released_at > 0`,
		"a pin has no batch":               `SELECT COUNT(*) FROM export_pins p LEFT JOIN exports e ON e.id = p.export_id WHERE e.id IS NULL`,
	} {
		var n int
		if err := w.db.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 0 {
			t.Errorf("%s: %d times", what, n)
		}
	}
}

// eventCount returns the number of sealed events.
func (w *world) eventCount(t testing.TB, id drive.ExportID) int64 {
	t.Helper()
	return w.count(t, "SELECT COUNT(*) FROM outbox WHERE topic = 'smartdrive.exports' AND event LIKE ?", "%"+id.String()+"%")
}

// count returns the number that a query yields.
func (w *world) count(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := w.db.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// crashesAt runs do in its own process until it has made the given number of database calls. The
// last call succeeds in every other case. It reports whether the process made that many calls.
func (w *world) crashesAt(t testing.TB, calls int64, do func(*Exports), change ...func(*Options)) (died bool) {
	t.Helper()
	life := sqldbtest.NewKillSwitch(0, calls%2 == 0)
	db := w.open(t, life.Connector)
	dead := w.process(db, "dead", change...)
	life.CutAt(calls)
	do(dead)
	_ = db.Close() // like a crash: uncommitted changes are rolled back
	return life.Cut()
}

func (w *world) url(path string) string { return w.web.URL + path }

func text(n int) string { return fmt.Sprintf("document %d %s", n, strings.Repeat("x", n%7)) }

func exec(query string, args ...any) func(context.Context, *sqldb.Tx) error {
	return func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	}
}

// requestsOf returns the number of requests for a document.
func (w *world) requestsOf(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gets[path]
}

// requests returns the number of requests for documents.
func (w *world) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.gets)
}
