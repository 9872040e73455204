// Package uploadtest builds upload.Sessions over SQLite, a directory and the in-memory queue, with
// a virtual clock. Tests can crash it, restart it and fire timers.
package uploadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/unlink"
	"example.org/smartdrive/internal/usecase/upload"
)

// Clock is the virtual clock of a Site. It changes only through Advance.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the virtual time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Read returns the virtual time, with the signature of a database clock. It never fails.
func (c *Clock) Read(context.Context) (drive.Time, error) { return drive.TimeOf(c.Now()), nil }

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Options configure a Site. The zero value is an ordinary installation.
type Options struct {
	Upload  upload.Options
	Unlink  unlink.Options
	DB      sqldb.Options                   // set Connector to count or fail calls
	Staging func(blob.Staging) blob.Staging // decorates the staging
	Store   func(blob.Store) blob.Store     // decorates the store
	Local   local.Options                   // BootID, Durability and others
	Dir     string                          // an empty directory; default: temporary
	Faults  *Faults                         // injects faults into calls to database, staging, store and timers
	Shared  *Shared                         // state shared with other instances, which must use the same Dir
}

// epoch is the start time of every virtual clock.
var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Site is an installation in a temporary directory, or one instance of it.
type Site struct {
	*upload.Sessions
	*unlink.Unlinker
	DB       *sqldb.DB
	Dir      string
	Local    *local.Dir
	Queue    *memory.Queue
	Tree     *tree.Tree
	Activity *activity.Log
	Clock    *Clock

	opt     Options
	parts   upload.Dependencies
	staging blob.Staging // undecorated, for checks
	store   blob.Store
	log     *slog.Logger
	stop    func() error
}

// T is the part of *testing.T, *testing.B and *rapid.T that this package uses.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
	Context() context.Context
}

// New starts a site and stops it when the test ends. The default part size is 2 MiB, so that tests
// with many parts stay small.
func New(t testing.TB, opt Options) *Site {
	t.Helper()
	if opt.Upload.PartSize == 0 {
		opt.Upload.PartSize = 2 * drive.MiB
	}
	if opt.Upload.MinFree == 0 {
		opt.Upload.MinFree = 1
	}
	if opt.Upload.SealWait == 0 {
		opt.Upload.SealWait = time.Minute // in real time: slow machines must not time out
	}
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	opt.DB.Path = filepath.Join(opt.Dir, "smartdrive.db")
	opt.DB = sqldbtest.At(t, opt.DB)
	s := &Site{Dir: opt.Dir, Clock: &Clock{now: epoch}, opt: opt}
	if opt.Shared != nil {
		s.Clock = opt.Shared.Clock
	}
	s.start(t)
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop the site: %v", err)
		}
	})
	return s
}

// start opens the database and the staging, builds the Sessions and the Unlinker over them, and
// sets s.stop, which closes them again. It fails the test on an error. After stop it may be called
// again, as a restart.
func (s *Site) start(t T) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s.log = log
	ctx := context.Background()
	dbOpt := s.opt.DB
	if s.opt.Faults != nil {
		dbOpt.Connector = s.opt.Faults.connector
	}
	dbOpt.Log = log
	db, err := sqldb.Open(ctx, dbOpt)
	if err != nil {
		t.Fatalf("open the database: %v", err)
	}
	s.DB = db
	closeBytes := s.openBytes(t)
	s.Activity = activity.New(activity.Options{DB: db, Now: s.Clock.Now})
	up := s.opt.Upload
	up.Log = log
	if up.Now == nil { // otherwise the test gives this instance a wrong clock
		up.Now = s.Clock.Now
	}
	if up.OnLockOrderViolation == nil {
		up.OnLockOrderViolation = func(what string) { t.Errorf("locks: %s", what) }
	}
	rights := access.New(access.Options{DB: db, Now: up.Now})
	trees := tree.Options{Now: s.Clock.Now, OnEffect: s.Activity.RecordNode}
	trees.OnFolderTrashed = func(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
		return rights.InvalidateIfGranted(ctx, tx, n.Account)
	}
	files.EnforceLocks(&trees, files.LockRules(s.Clock.Now, rights))
	s.Tree = tree.New(trees)
	parts := upload.Dependencies{
		Access: rights, DB: db, Staging: s.staging, Store: s.store, Tree: s.Tree, Timers: queueTimers{s.Queue},
		Events: outbox.New(db, outbox.Options{Source: "smartdrive/test", Now: s.Clock.Now, Log: log}),
	}
	parts.Content.Now = s.Clock.Now
	if s.opt.Staging != nil {
		parts.Staging = s.opt.Staging(parts.Staging)
	}
	if s.opt.Store != nil {
		parts.Store = s.opt.Store(parts.Store)
	}
	if f := s.opt.Faults; f != nil {
		parts.Staging = faultyStaging{parts.Staging, f}
		parts.Store = faultyStore{parts.Store, f}
		parts.Timers = faultyTimers{parts.Timers, f}
	}
	s.parts = parts
	s.Sessions = upload.New(parts, up)
	gone := s.opt.Unlink
	gone.Log, gone.Restored = log, up.Restored
	s.Unlinker = unlink.New(unlink.Dependencies{DB: db, Store: parts.Store, Content: parts.Content}, gone)
	s.stop = func() error {
		if err := s.Close(); err != nil {
			return err
		}
		if err := closeBytes(); err != nil {
			return err
		}
		return db.Close()
	}
}

// openBytes opens the staging, the store and the timer queue, and returns the function that closes
// them.
func (s *Site) openBytes(t T) (closeIt func() error) {
	t.Helper()
	if sh := s.opt.Shared; sh != nil {
		s.staging, s.store, s.Queue = sh, SharedStore{sh}, sh.Queue
		return func() error { return nil }
	}
	lo := s.opt.Local
	lo.Dir, lo.Now, lo.Log = s.Dir, s.Clock.Now, s.log
	dir, err := local.Open(context.Background(), lo)
	if err != nil {
		t.Fatalf("open the directory: %v", err)
	}
	s.Local, s.staging, s.store = dir, dir.Staging, dir.Blobs
	s.Queue = memory.New(memory.Options{Now: s.Clock.Now})
	return dir.Close
}

// LoseTimers makes the site react as the timer engine does when the queue has lost timers.
func (s *Site) LoseTimers(t T) {
	t.Helper()
	if err := errors.Join(s.SuspendAllReclaims(context.Background()), s.Recover(context.Background())); err != nil {
		t.Fatalf("arm again what was lost: %v", err)
	}
}

// Restart stops the process, as far as possible like kill -9: all memory is lost and the fault rule
// is cleared. The new process has run Recover.
func (s *Site) Restart(t T) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Fatalf("stop the site: %v", err)
	}
	s.opt.Faults.Clear()
	s.start(t)
	if err := s.Recover(context.Background()); err != nil {
		t.Fatalf("recover: %v", err)
	}
}

// queueTimers implements upload.Timers with an in-memory queue. Like a queue behind a network, it
// fails with Unavailable if the context has ended.
type queueTimers struct{ q *memory.Queue }

// Arm arms timers in the queue. It returns Unavailable if ctx has ended, and the error of the
// queue.
func (q queueTimers) Arm(ctx context.Context, entries ...timer.Entry) error {
	if ctx.Err() != nil {
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
	return q.q.Arm(ctx, entries)
}

// Touch postpones the timer in the queue.
func (q queueTimers) Touch(key timer.Key) { q.q.Touch(key) }

// Cancel removes a timer from the queue if its gen is at most gen. It returns Unavailable if ctx
// has ended, and the error of the queue.
func (q queueTimers) Cancel(ctx context.Context, key timer.Key, gen int64) error {
	if ctx.Err() != nil {
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
	return q.q.Cancel(ctx, key, gen)
}

// Fire delivers each timer that is due once and returns their number. A timer whose handler fails
// is due again in a second; that does not fail the test.
func (s *Site) Fire(t T) int {
	t.Helper()
	ctx, n := context.Background(), 0
	for kind, handle := range map[timer.Kind]timer.Handler{timer.Park: s.OnPark, timer.Abandon: s.OnAbandon} {
		batch, err := s.Queue.Lease(ctx, kind, 1<<20, time.Minute)
		if err != nil {
			t.Fatalf("lease: %v", err)
		}
		for _, f := range batch.Fired {
			out := timer.Outcome{Key: f.Key, Token: f.Token, Verdict: timer.Done}
			if err := handle(ctx, f); err != nil {
				out.Verdict, out.In = timer.Snooze, time.Second
			}
			if _, err := s.Queue.Settle(ctx, []timer.Outcome{out}); err != nil {
				t.Fatalf("settle: %v", err)
			}
			n++
		}
	}
	return n
}

// AdvanceAndFire advances the clock by d and fires due timers after each step. Steps are one second
// up to ten minutes, else one minute.
func (s *Site) AdvanceAndFire(t T, d time.Duration) {
	t.Helper()
	for d > 0 {
		step := min(d, time.Minute)
		if d <= 10*time.Minute {
			step = min(d, time.Second)
		}
		s.Clock.Advance(step)
		s.Fire(t)
		d -= step
	}
}

// Account creates an account with a ledger and a tree; total 0 is unlimited.
func (s *Site) Account(t T, total drive.ByteSize) drive.Who {
	t.Helper()
	who := drive.Who{
		User: drive.NewID[drive.UserID](), Account: drive.NewID[drive.AccountID](), Session: drive.NewID[drive.SessionID](),
	}
	limit := &total
	if total == 0 {
		limit = nil
	}
	err := s.DB.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO accounts (id, created_at) VALUES (?, 0)`, who.Account); err != nil {
			return err
		}
		if err := s.Ledger.Create(ctx, tx, who.Account, limit); err != nil {
			return err
		}
		_, err := s.Tree.Create(ctx, tx, who.Account)
		return err
	})
	if err != nil {
		t.Fatalf("make an account: %v", err)
	}
	return who
}

// Start begins an upload of size bytes at path.
func (s *Site) Start(t T, who drive.Who, path string, size drive.ByteSize) upload.View {
	t.Helper()
	v, err := s.Begin(t.Context(), who, upload.Begin{Path: Path(t, path), Size: size}, nil)
	if err != nil {
		t.Fatalf("begin %s: %v", path, err)
	}
	return v
}

// Send sends part n of data to upload v, and returns the error of Put.
func (s *Site) Send(t T, who drive.Who, v upload.View, n int, data []byte) error {
	t.Helper()
	part := Part(v, n, data)
	return s.Put(t.Context(), who, v.ID, upload.PutPart{N: n, Size: drive.ByteSize(len(part))}, bytes.NewReader(part))
}

// SendAll sends all parts of data in reverse order; an error fails the test.
func (s *Site) SendAll(t T, who drive.Who, v upload.View, data []byte) {
	t.Helper()
	for n := v.Parts - 1; n >= 0; n-- {
		if err := s.Send(t, who, v, n, data); err != nil {
			t.Fatalf("send part %d: %v", n, err)
		}
	}
}

// Part returns the bytes of part n of data.
func Part(v upload.View, n int, data []byte) []byte {
	from := n * int(v.PartSize)
	return data[from:min(len(data), from+int(v.PartSize))]
}

// Path parses a path; an error fails the test.
func Path(t T, s string) drive.Path {
	t.Helper()
	return treetest.Path(t, s)
}

// Read returns the content of the file at path. It fails the test if there is no file or its
// content is missing.
func (s *Site) Read(t T, who drive.Who, path string) []byte {
	t.Helper()
	ctx := t.Context()
	n, err := s.Tree.Resolve(ctx, s.DB, who.Account, Path(t, path))
	if err != nil {
		t.Fatalf("resolve %s: %v", path, err)
	}
	b, err := s.Content.Find(ctx, s.DB, n.Blob)
	if err != nil {
		t.Fatal(err)
	}
	file, err := s.Store.Open(ctx, b.File)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data := make([]byte, file.Size())
	if _, err := file.ReadAt(data, 0); err != nil && len(data) > 0 && int64(len(data)) != int64(file.Size()) {
		t.Fatal(err)
	}
	return data
}

// Balance returns the account's ledger as "finished/unfinished/reserved" in bytes.
func (s *Site) Balance(t T, who drive.Who) string {
	t.Helper()
	b, err := s.Ledger.Get(context.Background(), s.DB, who.Account)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d/%d/%d", b.Finished, b.Unfinished, b.Reserved)
}
