package collect_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/collect"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// fixture is a drive with a folder for collect links.
type fixture struct {
	*uploadtest.Site
	*collect.Links
	who    drive.Who
	folder drive.NodeID
	key    vault.Key
}

func newFixture(t testing.TB, opt uploadtest.Options) *fixture {
	t.Helper()
	d := &fixture{Site: uploadtest.New(t, opt), key: vault.NewKey()}
	if err := vault.New(vault.Options{DB: d.DB, Keys: []vault.Key{d.key}}).Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Links = d.links()
	accounts := account.Options{Cost: treetest.Cheap, Now: d.Clock.Now}
	users := account.NewUsers(d.DB, account.NewAuth(d.DB, accounts), accounts)
	made := treetest.New(t, treetest.Drive{DB: d.DB, Tree: d.Tree}, users, "ann")
	d.who = made.Who
	d.who.Session = drive.NewID[drive.SessionID]()
	treetest.Write(t, d.DB, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := d.Tree.EnsureFolders(ctx, tx, d.who.Account, treetest.Path(t, "/in"))
		d.folder = n.ID
		return err
	})
	return d
}

// links returns the links as a new process has them, with an empty cache.
func (d *fixture) links() *collect.Links {
	accounts := account.Options{Now: d.Clock.Now}
	return collect.New(collect.Options{
		DB: d.DB, Tree: d.Tree, Users: account.NewUsers(d.DB, account.NewAuth(d.DB, accounts), accounts), Now: d.Clock.Now,
		Vault: vault.New(vault.Options{DB: d.DB, Keys: []vault.Key{d.key}, Now: d.Clock.Now}),
	})
}

func (d *fixture) link(t testing.TB, limit drive.ByteSize) collect.View {
	t.Helper()
	v, err := d.Create(t.Context(), d.who, collect.Request{Folder: d.folder, Title: "in", MaxBytes: &limit}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (d *fixture) sender(t testing.TB, l collect.View) collect.Sender {
	t.Helper()
	g, err := d.IssueToken(t.Context(), l.Token, "bob")
	if err != nil {
		t.Fatal(err)
	}
	by, err := d.Authenticate(t.Context(), g.Token)
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// begin begins an upload by a sender on a given instance.
func begin(ctx context.Context, s *upload.Sessions, links *collect.Links, by collect.Sender, name string, size drive.ByteSize) (upload.View, error) {
	return beginMarked(ctx, s, links, by, upload.Begin{Name: drive.Name(name), Size: size})
}

// beginMarked begins an upload by a sender, which may carry a fingerprint.
func beginMarked(ctx context.Context, s *upload.Sessions, links *collect.Links, by collect.Sender, b upload.Begin) (upload.View, error) {
	b.Parent, b.Conflict, b.Fingerprint = by.Folder(), drive.ConflictRename, by.Fingerprint(b.Fingerprint)
	return s.Begin(ctx, by.Who(), b, func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (upload.View, error)) (upload.View, error) {
		var v upload.View
		err := links.BeginUpload(ctx, tx, by, collect.File{Name: b.Name, Size: b.Size}, func() (_ collect.BeginResult, err error) {
			v, err = effect(ctx, tx)
			return collect.BeginResult{Upload: v.ID, Found: v.Found}, err
		})
		return v, err
	})
}

func wantKind(t testing.TB, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
}

// held independently sums the bytes that count against all links: declared sizes of uploads that
// are not gone.
func (d *fixture) held(t testing.TB) (sum drive.ByteSize, open, without int) {
	t.Helper()
	err := d.DB.QueryRow(context.Background(), `SELECT COALESCE(SUM(CASE WHEN u.state <> 'gone' THEN u.size ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN u.state IN ('active', 'parked', 'sealing', 'reclaiming') THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN c.upload_id IS NULL THEN 1 ELSE 0 END), 0)
		FROM uploads u LEFT JOIN collected c ON c.upload_id = u.id WHERE u.state <> 'gone'`).Scan(&sum, &open, &without)
	if err != nil {
		t.Error(err)
	}
	return sum, open, without
}

// The limit (C1) holds while two instances begin, cancel and complete uploads.
func TestBudgetHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	const limit, size = 1000, 100
	d := newFixture(t, uploadtest.Options{})
	l := d.link(t, limit)
	twin, twinLinks := d.SecondInstance(), d.links()
	defer func() {
		if err := twin.Close(); err != nil {
			t.Error(err)
		}
	}()
	var refused, done atomic.Int64
	var all, watcher sync.WaitGroup
	stop := make(chan struct{})
	watcher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if sum, _, without := d.held(t); sum > limit || without != 0 {
				t.Errorf("C1: %d bytes of %d are held, %d uploads are nobody's", sum, limit, without)
				return
			}
		}
	})
	for i := range 6 {
		s, links := d.Sessions, d.Links
		if i%2 == 1 {
			s, links = twin, twinLinks
		}
		by := d.sender(t, l)
		all.Go(func() {
			for n := range 12 {
				v, err := begin(t.Context(), s, links, by, fmt.Sprintf("f%d", n), size)
				if drive.IsKind(err, drive.Quota) {
					refused.Add(1)
					continue
				}
				if err != nil {
					t.Errorf("begin: %v", err)
					return
				}
				if n%6 == 5 { // some stay
					if err := d.Send(t, by.Who(), v, 0, make([]byte, size)); err != nil {
						t.Errorf("send: %v", err)
					}
					if _, _, err := d.Complete(t.Context(), by.Who(), v.ID, upload.Complete{}); err != nil {
						t.Errorf("complete: %v", err)
					}
					done.Add(1)
					continue
				}
				if err := s.Cancel(t.Context(), by.Who(), v.ID); err != nil {
					t.Errorf("cancel: %v", err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	watcher.Wait()
	want := drive.ByteSize(done.Load() * size)
	for _, when := range []string{"at once", "settled", "settled twice"} {
		got, err := d.Find(t.Context(), d.who, l.ID)
		if err != nil || got.Files != done.Load() || got.Received != want || got.Arriving != 0 || *got.Left != limit-want {
			t.Errorf("%s: %d files, %d bytes, %d arriving, %d left, %v; want %d files", when, got.Files, got.Received, got.Arriving, *got.Left, err, done.Load())
		}
		if err := d.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if done.Load() == 0 {
		t.Error("nothing was completed")
	}
	d.CheckLedger(t, d.who)
}

// After a crash at any call of a begin, a link counts exactly the existing uploads.
func TestCrashedBeginChargesExistingUploads(t *testing.T) {
	t.Parallel()
	for _, how := range []uploadtest.Effect{uploadtest.Die, uploadtest.DieAfter} {
		begun := 0
		fate := &uploadtest.Faults{}
		d := newFixture(t, uploadtest.Options{Faults: fate})
		const limit = 100_000
		l := d.link(t, limit)
		by := d.sender(t, l)
		for n := 1; ; n++ {
			fate.Set(uploadtest.Rule{Point: "", N: n, Effect: how})
			_, err := begin(t.Context(), d.Sessions, d.Links, by, fmt.Sprintf("f%d", n), 100)
			if came := fate.Clear(); !came {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			d.Restart(t)
			d.Links = d.links()
			sum, open, without := d.held(t)
			got, err := d.Find(t.Context(), d.who, l.ID)
			if err != nil || got.Arriving != sum || *got.Left != limit-sum || without != 0 {
				t.Fatalf("%v at call %d: %d arrive, %d left, %d are there, %d nobody's; %v", how, n, got.Arriving, *got.Left, sum, without, err)
			}
			begun = max(begun, open)
		}
		if how == uploadtest.DieAfter && begun == 0 {
			t.Error("no begin got through before the process died")
		}
		d.CheckLedger(t, d.who)
	}
}

// An abandoned upload stops counting when reclaimed; received files count forever.
func TestReclaimedUploadStopsCounting(t *testing.T) {
	t.Parallel()
	d := newFixture(t, uploadtest.Options{})
	l := d.link(t, 1000)
	by := d.sender(t, l)
	if _, err := begin(t.Context(), d.Sessions, d.Links, by, "idle", 1000); err != nil {
		t.Fatal(err)
	}
	_, err := begin(t.Context(), d.Sessions, d.Links, by, "more", 1)
	wantKind(t, err, drive.Quota)
	if _, own := errors.AsType[*collect.ExceededError](err); !own {
		t.Errorf("whose room is used up is not told: %v", err)
	}
	d.AdvanceAndFire(t, 10*time.Minute) // it never had a byte
	d.AdvanceAndFire(t, 2*time.Hour)
	v, err := begin(t.Context(), d.Sessions, d.Links, by, "file", 900)
	if err != nil {
		t.Fatal(err)
	}
	d.SendAll(t, by.Who(), v, make([]byte, 900))
	if _, _, err := d.Complete(t.Context(), by.Who(), v.ID, upload.Complete{}); err != nil {
		t.Fatal(err)
	}
	d.Clock.Advance(8 * 24 * time.Hour)
	if err := d.PurgeEnded(t.Context()); err != nil { // before anybody has settled
		t.Fatal(err)
	}
	for range 2 {
		got, err := d.Find(t.Context(), d.who, l.ID)
		if err != nil || got.Files != 1 || got.Received != 900 || got.Arriving != 0 || *got.Left != 100 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := d.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	by = d.sender(t, l)
	_, err = begin(t.Context(), d.Sessions, d.Links, by, "over", 101)
	wantKind(t, err, drive.Quota)
	if files, err := d.ListFiles(t.Context(), d.who, l.ID, drive.UploadID{}, 10); err != nil || len(files) != 1 || files[0].State != "done" || files[0].SenderName != "bob" {
		t.Errorf("the files are %+v, %v", files, err)
	}
}

func TestLinkLimitsOpenUploads(t *testing.T) {
	t.Parallel()
	d := newFixture(t, uploadtest.Options{})
	l := d.link(t, 1<<40)
	by := d.sender(t, l)
	for n := range 50 {
		if _, err := begin(t.Context(), d.Sessions, d.Links, by, fmt.Sprint(n), 1); err != nil {
			t.Fatal(err)
		}
	}
	_, err := begin(t.Context(), d.Sessions, d.Links, by, "more", 1)
	wantKind(t, err, drive.TooManyOpen)
	if _, err := begin(t.Context(), d.Sessions, d.Links, d.sender(t, l), "other", 1); err != nil {
		t.Errorf("another sender: %v", err)
	}
}

// A link limits the number of files, so that it cannot use up its owner's node limit.
func TestLinkLimitsFiles(t *testing.T) {
	t.Parallel()
	d := newFixture(t, uploadtest.Options{})
	l := d.link(t, 1<<40)
	by := d.sender(t, l)
	err := d.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE collects SET files = 99999 WHERE id = ?", l.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begin(t.Context(), d.Sessions, d.Links, by, "last", 0); err != nil {
		t.Fatal(err)
	}
	_, err = begin(t.Context(), d.Sessions, d.Links, by, "over", 0)
	wantKind(t, err, drive.TooLarge)
	if got, err := d.Find(t.Context(), d.who, l.ID); err != nil || got.State != collect.Full {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestPurgeDeletesOrphans(t *testing.T) {
	t.Parallel()
	d := newFixture(t, uploadtest.Options{})
	l, other := d.link(t, 1000), d.link(t, 1000)
	for _, l := range []collect.View{l, other} {
		if _, err := begin(t.Context(), d.Sessions, d.Links, d.sender(t, l), "f", 10); err != nil {
			t.Fatal(err)
		}
	}
	open, err := d.Delete(t.Context(), d.who, l.ID)
	if err != nil || len(open) != 1 {
		t.Fatalf("deleting returns %v, %v", open, err)
	}
	count := func(table string) (n int) {
		t.Helper()
		if err := d.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := d.Purge(t.Context()); err != nil || count("collected") != 1 || count("collects") != 1 {
		t.Errorf("%d links and %d files are left, %v", count("collects"), count("collected"), err)
	}
	err = d.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return d.DeleteAccount(ctx, tx, d.who.Account) })
	if err != nil || count("collected") != 0 || count("collects") != 0 {
		t.Errorf("%d links and %d files are left of the account, %v", count("collects"), count("collected"), err)
	}
}
