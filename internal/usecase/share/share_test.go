package share_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/share"
)

// fixture is a drive whose shares two instances serve.
type fixture struct {
	*share.Shares
	twin  *share.Shares
	db    *sqldb.DB
	tree  *tree.Tree
	users *account.Users
	who   drive.Who
	root  drive.NodeID
	mu    sync.Mutex
	now   time.Time
	key   vault.Key
}

func (d *fixture) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *fixture) advance(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func newFixture(t testing.TB, opt sqldb.Options) *fixture {
	t.Helper()
	d := &fixture{db: sqldbtest.OpenWith(t, opt), now: time.UnixMilli(1_800_000_000_000), key: vault.NewKey()}
	accounts := account.Options{Cost: treetest.Cheap, Now: d.clock}
	users := account.NewUsers(d.db, account.NewAuth(d.db, accounts), accounts)
	d.tree = tree.New(tree.Options{Now: d.clock})
	d.users = users
	d.Shares, d.twin = d.shares(t), d.shares(t)
	made := treetest.New(t, treetest.Drive{DB: d.db, Tree: d.tree}, users, "ann")
	d.who, d.root = made.Who, made.Root
	return d
}

// shares returns the shares as a new process has them.
func (d *fixture) shares(t testing.TB) *share.Shares {
	t.Helper()
	v := vault.New(vault.Options{DB: d.db, Keys: []vault.Key{d.key}, Now: d.clock})
	if err := v.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return share.New(share.Options{DB: d.db, Tree: d.tree, Users: d.users, Now: d.clock, Vault: v})
}

func (d *fixture) write(t testing.TB, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	treetest.Write(t, d.db, fn)
}

func (d *fixture) folder(t testing.TB, path ...drive.Name) drive.NodeID {
	t.Helper()
	var n tree.Node
	d.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = d.tree.EnsureFolders(ctx, tx, d.who.Account, path)
		return err
	})
	return n.ID
}

func (d *fixture) share(t testing.TB, in share.Request) share.View {
	t.Helper()
	v, err := d.Create(t.Context(), d.who, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// enter opens a share and uses the access at once.
func (d *fixture) enter(t testing.TB, v share.View) share.Visit {
	t.Helper()
	a, err := d.Open(t.Context(), v.Token, v.Code, home)
	if err != nil {
		t.Fatal(err)
	}
	visit, err := d.VerifyAccess(t.Context(), v.Token, a.Token)
	if err != nil {
		t.Fatal(err)
	}
	return visit
}

func wantKind(t testing.TB, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
}

var home = netip.MustParseAddr("192.0.2.1")

// callers is the number of concurrent requests: twice the connections of a test's database. With
// more, requests would only wait longer for a connection than a transaction takes.
const callers = 16

// Attempts at two instances count together, concurrent or not.
func TestAttemptsCountAcrossInstances(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	v := d.share(t, share.Request{Node: d.folder(t, "a"), Code: share.AutoCode})
	var wrong, refused atomic.Int32
	var all sync.WaitGroup
	for i := range callers {
		on := d.Shares
		if i%2 == 1 {
			on = d.twin
		}
		all.Go(func() {
			for range 3 {
				switch _, err := on.Open(t.Context(), v.Token, "zzzz", home); drive.KindOf(err) {
				case drive.WrongCode:
					wrong.Add(1)
				case drive.Rate:
					refused.Add(1)
				default:
					t.Errorf("an attempt: %v", err)
				}
			}
		})
	}
	all.Wait()
	if wrong.Load() != 10 || refused.Load() != 3*callers-10 {
		t.Errorf("%d were tried and %d refused, want 10 and %d", wrong.Load(), refused.Load(), 3*callers-10)
	}
	_, err := d.twin.Open(t.Context(), v.Token, v.Code, home)
	wantKind(t, err, drive.Rate)
	var e *drive.Error
	if !errors.As(err, &e) || e.Args["retry_after"] != 900 {
		t.Errorf("it says %v", err)
	}
	if _, err := d.Open(t.Context(), v.Token, v.Code, netip.MustParseAddr("198.51.100.7")); err != nil {
		t.Errorf("another address: %v", err)
	}
	d.advance(15 * time.Minute)
	for range 30 { // those with the right code do not count
		if _, err := d.Open(t.Context(), v.Token, v.Code, home); err != nil {
			t.Fatal(err)
		}
	}
	six := netip.MustParseAddr("2001:db8:1:2::1")
	for range 10 {
		_, err := d.Open(t.Context(), v.Token, "zzzz", six)
		wantKind(t, err, drive.WrongCode)
		six = six.Next()
	}
	_, err = d.Open(t.Context(), v.Token, v.Code, six)
	wantKind(t, err, drive.Rate)
}

// Programs that guess codes from many addresses lock out nobody and gain little: addresses wait
// ever longer, and networks are limited.
func TestManyAddressesCannotLockOutOthers(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	v := d.share(t, share.Request{Node: d.folder(t, "a"), Code: "abcd"})
	try := func(from netip.Addr, code string) error {
		_, err := d.Open(t.Context(), v.Token, code, from)
		return err
	}
	from, wrong := netip.MustParseAddr("10.0.0.0"), 0
	for range 80 {
		from = from.Next()
		if drive.IsKind(try(from, "zzzz"), drive.WrongCode) {
			wrong++
		}
	}
	if wrong != 60 {
		t.Errorf("a network made %d attempts, want 60", wrong)
	}
	for network := range byte(24) { // 10 of each: together 300
		for i := range byte(10) {
			wantKind(t, try(netip.AddrFrom4([4]byte{10, 1, network, i}), "zzzz"), drive.WrongCode)
		}
	}
	visitor := netip.MustParseAddr("203.0.113.5")
	if err := try(visitor, v.Code); err != nil {
		t.Errorf("a visitor with the right code: %v", err)
	}
	wantKind(t, try(visitor, "abce"), drive.WrongCode)
	wait := func(seconds int) {
		t.Helper()
		err := try(visitor, v.Code)
		var e *drive.Error
		if !errors.As(err, &e) || e.Kind != drive.Rate || e.Args["retry_after"] != seconds {
			t.Errorf("it is answered %v, want a wait of %d s", err, seconds)
		}
	}
	wait(60)
	d.advance(time.Minute)
	wantKind(t, try(visitor, "abce"), drive.WrongCode)
	wait(120)
	d.advance(2 * time.Minute)
	if err := try(visitor, v.Code); err != nil {
		t.Errorf("at its third attempt: %v", err)
	}
	d.advance(13 * time.Minute)
	for range 10 { // the window is over
		wantKind(t, try(visitor, "zzzz"), drive.WrongCode)
	}
	wantKind(t, try(visitor, v.Code), drive.Rate)
}

// The download limit holds when two instances race; later ranges of a visit are free.
func TestDownloadLimitHoldsInRace(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	limit := int64(7)
	v := d.share(t, share.Request{Node: d.folder(t, "a"), MaxDownloads: &limit})
	visit := d.enter(t, v)
	var given atomic.Int32
	var all sync.WaitGroup
	for i := range callers {
		on := d.Shares
		if i%2 == 1 {
			on = d.twin
		}
		all.Go(func() {
			for range 3 {
				switch err := on.CountDownload(t.Context(), visit, v.Node, true); drive.KindOf(err) {
				case drive.Gone:
				default:
					if err != nil {
						t.Errorf("a download: %v", err)
					}
					given.Add(1)
				}
			}
		})
	}
	all.Wait()
	if given.Load() != 7 {
		t.Errorf("%d downloads were given, want 7", given.Load())
	}
	if err := d.twin.CountDownload(t.Context(), visit, v.Node, false); err != nil {
		t.Errorf("a later range: %v", err)
	}
	if got, err := d.Find(t.Context(), d.who, v.ID); err != nil || got.Downloads != 7 || got.State != share.UsedUp {
		t.Errorf("it stands at %+v, %v", got, err)
	}
}

// Ranges of a download may arrive in any order at two instances and count once; a second read from
// the first byte counts again.
func TestRangesBeforeFirstByteCountOnce(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	limit := int64(2)
	v := d.share(t, share.Request{Node: d.folder(t, "a"), MaxDownloads: &limit})
	visit := d.enter(t, v)
	for round := range 8 { // each on a share of its own
		v := d.share(t, share.Request{Node: d.folder(t, drive.Name(fmt.Sprintf("of %d", round))), MaxDownloads: &limit})
		visit := d.enter(t, v)
		var all sync.WaitGroup
		for i := range 6 {
			on := d.Shares
			if i%2 == 1 {
				on = d.twin
			}
			all.Go(func() {
				if err := on.CountDownload(t.Context(), visit, v.Node, i == 3); err != nil {
					t.Errorf("piece %d: %v", i, err)
				}
			})
		}
		all.Wait()
		if got, err := d.Find(t.Context(), d.who, v.ID); err != nil || got.Downloads != 1 {
			t.Errorf("pieces at once were counted %d times, %v", got.Downloads, err)
		}
	}
	for i, step := range []struct {
		fromStart bool
		counted   int64
		refused   bool
	}{{false, 1, false}, {false, 1, false}, {true, 1, false}, {false, 1, false}, {true, 2, false}, {true, 2, true}, {false, 2, false}} {
		err := d.CountDownload(t.Context(), visit, v.Node, step.fromStart)
		if drive.IsKind(err, drive.Gone) != step.refused || err != nil && !step.refused {
			t.Errorf("step %d: %v", i, err)
		}
		if got, err := d.Find(t.Context(), d.who, v.ID); err != nil || got.Downloads != step.counted {
			t.Errorf("step %d: counted %d times, %v", i, got.Downloads, err)
		}
	}
}

// If the outcome of a count is unknown nothing is sent, so the limit is never exceeded.
func TestCountOfUnknownOutcomeSendsNothing(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "it counts the calls of one transaction")
	for _, lost := range []bool{false, true} {
		faults := &sqldbtest.Faults{}
		d := newFixture(t, sqldb.Options{Connector: faults.Connector})
		limit := int64(2)
		v := d.share(t, share.Request{Node: d.folder(t, "a"), MaxDownloads: &limit})
		visit := d.enter(t, v)
		if lost {
			faults.LoseReply(sqldbtest.Commit, 1, nil)
		} else {
			faults.Fail(sqldbtest.Commit, 1, nil)
		}
		given := 0
		for range 5 {
			if d.CountDownload(t.Context(), visit, v.Node, true) == nil {
				given++
			}
		}
		want := 2
		if lost {
			want = 1 // one was counted and not given
		}
		if left := faults.Clear(); given != want || left != 0 {
			t.Errorf("lost=%v: %d were given, want %d; %d faults did not come", lost, given, want, left)
		}
		if got, err := d.Find(t.Context(), d.who, v.ID); err != nil || got.Downloads != 2 {
			t.Errorf("lost=%v: it stands at %d, %v", lost, got.Downloads, err)
		}
	}
}

func TestReachOnlyWithinSubtree(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	top, below, beside := d.folder(t, "a", "b"), d.folder(t, "a", "b", "c"), d.folder(t, "a", "d")
	visit := d.enter(t, d.share(t, share.Request{Node: top}))
	if n, path, err := d.FindWithin(t.Context(), visit, below); err != nil || n.ID != below || path.String() != "/c" {
		t.Errorf("below: %v at %s, %v", n.ID, path, err)
	}
	for _, id := range []drive.NodeID{beside, d.folder(t, "a"), d.root, drive.NewID[drive.NodeID](), {}} {
		_, _, err := d.FindWithin(t.Context(), visit, id)
		wantKind(t, err, drive.NotFound)
	}
	_, err := d.Create(t.Context(), d.who, share.Request{Node: d.root}, nil)
	wantKind(t, err, drive.BadRequest)
	_, err = d.Create(t.Context(), drive.Who{User: d.who.User, Account: drive.NewID[drive.AccountID]()}, share.Request{Node: top}, nil)
	wantKind(t, err, drive.NotFound)
}

func TestPurgeDeletesOrphans(t *testing.T) {
	t.Parallel()
	d := newFixture(t, sqldb.Options{})
	limit := int64(2)
	gone, kept := d.folder(t, "gone"), d.folder(t, "kept")
	dead := d.share(t, share.Request{Node: gone})
	v := d.share(t, share.Request{Node: kept, Code: "abcd", MaxDownloads: &limit})
	visit := d.enter(t, v)
	if err := d.CountDownload(t.Context(), visit, kept, true); err != nil {
		t.Fatal(err)
	}
	_, err := d.Open(t.Context(), v.Token, "zzzz", home)
	wantKind(t, err, drive.WrongCode)
	rows := func() (shares, downloads, attempts int) {
		t.Helper()
		err := d.db.QueryRow(t.Context(), `SELECT (SELECT COUNT(*) FROM shares), (SELECT COUNT(*) FROM share_downloads),
			(SELECT COUNT(*) FROM share_attempts)`).Scan(&shares, &downloads, &attempts)
		if err != nil {
			t.Fatal(err)
		}
		return shares, downloads, attempts
	}
	if err := d.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, n, a := rows(); s != 2 || n != 1 || a != 3 {
		t.Errorf("too early, %d, %d, %d rows are left", s, n, a)
	}
	d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM nodes WHERE id = ?", gone)
		return err
	})
	if got, err := d.Find(t.Context(), d.who, dead.ID); err != nil || got.State != share.Gone {
		t.Errorf("the share of what is gone is %+v, %v", got, err)
	}
	d.advance(3 * time.Hour)
	if err := d.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, n, a := rows(); s != 1 || n != 0 || a != 0 {
		t.Errorf("%d, %d, %d rows are left", s, n, a)
	}
	d.write(t, func(ctx context.Context, tx *sqldb.Tx) error { return d.DeleteAccount(ctx, tx, d.who.Account) })
	if s, _, _ := rows(); s != 0 {
		t.Errorf("%d shares are left of the account", s)
	}
}

// A page of shares takes a constant number of statements.
func TestListTakesConstantStatements(t *testing.T) {
	t.Parallel()
	var count sqldbtest.Counter
	d := newFixture(t, sqldb.Options{Connector: count.Connector})
	made := 0
	add := func(n int) {
		t.Helper()
		for range n {
			made++
			node := d.folder(t, drive.Name(fmt.Sprint("f", made)))
			if _, err := d.Create(t.Context(), d.who, share.Request{Node: node}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := func() int {
		t.Helper()
		before := count.Total()
		all, err := d.List(t.Context(), d.who, share.Query{Limit: 1000})
		if err != nil || len(all) != made {
			t.Fatalf("%d shares (%v), want %d", len(all), err, made)
		}
		for _, v := range all {
			if v.State != share.Open || v.Item.ID != v.Node || v.Token == "" {
				t.Errorf("%+v", v)
			}
		}
		return count.Total() - before
	}
	add(3)
	list() // keys are remembered
	few := list()
	add(60)
	if many := list(); many > few+1 { // a key may be read again
		t.Errorf("%d statements for 3 shares and %d for %d", few, many, made)
	}
}

// Attempts counted by a clock a year ahead lock nobody out after it is corrected.
func TestAttemptsOfFastClockExpire(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	d := newFixture(t, sqldb.Options{})
	v := d.share(t, share.Request{Node: d.folder(t, "a"), Code: "abcd"})
	d.advance(year)
	for range 10 {
		_, err := d.Open(t.Context(), v.Token, "zzzz", home)
		wantKind(t, err, drive.WrongCode)
	}
	_, err := d.Open(t.Context(), v.Token, v.Code, home)
	wantKind(t, err, drive.Rate)
	d.advance(-year)
	if _, err := d.Open(t.Context(), v.Token, v.Code, home); err != nil {
		t.Errorf("after the clock was set right: %v", err)
	}
	for range 10 {
		_, err := d.Open(t.Context(), v.Token, "zzzz", home)
		wantKind(t, err, drive.WrongCode)
	}
	_, err = d.Open(t.Context(), v.Token, v.Code, home)
	wantKind(t, err, drive.Rate)
}
