package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice"
)

// world is an account with a drive and a clock. Any number of Intakes, which stand for processes,
// may work on it.
type world struct {
	at    sqldb.Options
	db    *sqldb.DB
	store blob.Store
	tree  *tree.Tree
	who   drive.Who
	clock atomic.Int64
	deaf  atomic.Bool // arrivals are not reported
	tells *Intake     // the Intake that the tree reports arrivals to
}

// start is noon of 21 November 2026.
const start = 1_795_262_400_000

// newWorld returns a world with one account, whose tree reports arrivals to w.tells.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{at: sqldbtest.At(t, sqldb.Options{})}
	w.db = w.open(t, sqldb.NewConnector)
	w.store = treetest.Store(t)
	w.clock.Store(start)
	w.tree = tree.New(tree.Options{
		Now: func() time.Time { return drive.Time(w.clock.Load()).Std() },
		OnPlaced: func(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
			if w.deaf.Load() {
				return nil
			}
			return w.tells.Arrived(ctx, tx, n)
		},
	})
	w.tells = w.process(w.db, "told", func(o *Options) { o.Events = outbox.New(w.db, outbox.Options{Source: "smartdrive/test"}) })
	w.addAccount(t)
	return w
}

// addAccount creates another account with a drive and makes it the current one.
func (w *world) addAccount(t testing.TB) {
	t.Helper()
	w.who = drive.Who{User: drive.NewID[drive.UserID](), Account: drive.NewID[drive.AccountID]()}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, ?)", w.who.Account, start); err != nil {
			return err
		}
		_, err := w.tree.Create(ctx, tx, w.who.Account)
		return err
	})
}

// open opens the world's database again, through another connector.
func (w *world) open(t testing.TB, connector func(string) (driver.Connector, error)) *sqldb.DB {
	t.Helper()
	return sqldbtest.OpenAt(t, w.at, connector)
}

// write runs fn in a transaction.
func (w *world) write(t testing.TB, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	treetest.Write(t, w.db, fn)
}

// process returns a new Intake on a database of the world.
func (w *world) process(db *sqldb.DB, name string, change ...func(*Options)) *Intake {
	opt := Options{
		DB: db, Tree: w.tree, Store: w.store, Instance: name, Log: slog.New(slog.DiscardHandler),
		Clock: func(context.Context) (drive.Time, error) { return drive.Time(w.clock.Load()), nil },
	}
	for _, c := range change {
		c(&opt)
	}
	return New(opt)
}

// pass advances the clock.
func (w *world) pass(d time.Duration) { w.clock.Add(d.Milliseconds()) }

// stored puts content into the store, with or without a known SHA-256.
func (w *world) stored(t testing.TB, raw []byte, known bool) content.NewContent {
	t.Helper()
	fresh := treetest.Stored(t, w.store, string(raw))
	if known {
		sum := sha256.Sum256(raw)
		fresh.Aliases[digest.SHA256] = sum[:]
	}
	return fresh
}

// put stores a file at a path and creates missing folders. If the file exists, put adds a version.
func (w *world) put(t testing.TB, at drive.Path, raw []byte) drive.NodeID {
	t.Helper()
	fresh := w.stored(t, raw, len(raw)%2 == 0)
	parent, base, _ := at.Split()
	var n tree.Node
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		folder, err := w.tree.EnsureFolders(ctx, tx, w.who.Account, parent)
		if err != nil {
			return err
		}
		there, _, err := w.tree.Child(ctx, tx, w.who.Account, folder.ID, base)
		if err != nil {
			return err
		}
		id, _, err := content.Content{}.Attach(ctx, tx, fresh)
		if err != nil {
			return err
		}
		placed, err := w.tree.PutFile(ctx, tx, w.who.Account, tree.File{
			Parent: folder.ID, Name: base, Conflict: drive.ConflictReplace, Base: there.Version, Blob: id, Size: fresh.Size, By: w.who.User,
		})
		n = placed.Node
		return err
	})
	return n.ID
}

// parcel is a bundle to be sent.
type parcel struct {
	bundle.Manifest
	files map[string][]byte
}

// newParcel returns an empty parcel of a source.
func newParcel(source string) *parcel {
	return &parcel{
		Manifest: bundle.Manifest{Schema: bundle.Schema, ID: bundle.NewID(), Source: source, CreatedAt: drive.Time(start).Std()},
		files:    map[string][]byte{},
	}
}

// add adds a member.
func (p *parcel) add(name string, documents int, raw []byte) *parcel {
	sum := sha256.Sum256(raw)
	p.Members = append(p.Members, bundle.Member{Name: name, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:]), Documents: documents})
	p.files[name] = raw
	return p
}

// lines adds a member with documents as NDJSON.
func (p *parcel) lines(name string, docs ...*invoice.Document) *parcel {
	var b bytes.Buffer
	for _, d := range docs {
		raw, err := json.Marshal(d)
		if err != nil {
			panic(err)
		}
		b.Write(append(raw, '\n'))
	}
	return p.add(name, len(docs), b.Bytes())
}

// path returns the path of a member.
func (p *parcel) path(name string) drive.Path {
	return append(bundle.Folder(p.Source, p.ID), drive.Name(name))
}

// sendMembers stores the members of a parcel.
func (w *world) sendMembers(t testing.TB, p *parcel) {
	t.Helper()
	for name, raw := range p.files {
		w.put(t, p.path(name), raw)
	}
}

// sendMeta stores the manifest of a parcel.
func (w *world) sendMeta(t testing.TB, p *parcel) {
	t.Helper()
	raw, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, p.path("meta.json"), raw)
}

// send stores the members and then the manifest of a parcel, and returns its bundle.
func (w *world) send(t testing.TB, p *parcel) Bundle {
	t.Helper()
	w.sendMembers(t, p)
	w.sendMeta(t, p)
	return w.bundle(t, p)
}

// bundle returns the bundle of a parcel.
func (w *world) bundle(t testing.TB, p *parcel) Bundle {
	t.Helper()
	var id drive.BundleID
	if err := w.db.QueryRow(t.Context(), "SELECT id FROM bundles WHERE sender_id = ?", p.ID).Scan(&id); err != nil {
		t.Fatal(err)
	}
	b, err := w.tells.find(t.Context(), w.db, "WHERE id = ?", id)
	if err != nil {
		t.Fatalf("bundle %s: %v", p.ID, err)
	}
	return b.view()
}

// finish runs a process until no bundle is due.
func (w *world) finish(t testing.TB, in *Intake) {
	t.Helper()
	if err := in.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// doc returns a valid invoice whose amounts follow from cents.
func doc(number string, cents int64) *invoice.Document {
	net := invoice.NewDecimal(cents*100, 2)
	tax := invoice.NewDecimal(cents*19, 2)
	gross := net.Add(tax)
	rate := invoice.NewDecimal(19, 0)
	return &invoice.Document{
		Profile: "urn:cen.eu:en16931:2017", Number: number, Date: invoice.NewDate(2026, 10, 5), Type: "380", Currency: "EUR", Due: invoice.NewDate(2026, 11, 5),
		Seller: invoice.Party{Name: "Muster AG", VATID: "DE123456789", Address: &invoice.Address{City: "Berlin", Zone: "10115", Country: "DE"}},
		Buyer:  invoice.Party{Name: "Beispiel GmbH", VATID: "DE987654321", Address: &invoice.Address{City: "Bonn", Zone: "53111", Country: "DE"}},
		Totals: invoice.Totals{Lines: net, Net: net, Tax: tax, Gross: gross, Payable: gross},
		Taxes:  []invoice.Tax{{Category: "S", Rate: rate, Base: net, Amount: tax}},
		Lines: []invoice.Line{{
			ID: "1", Name: "Ware", Quantity: invoice.NewDecimal(1, 0), Unit: "C62", Price: net, Net: net, Category: "S", Rate: rate,
		}},
	}
}

// docs returns n valid invoices with different numbers.
func docs(prefix string, n int) (all []*invoice.Document) {
	for i := range n {
		all = append(all, doc(fmt.Sprintf("%s-%04d", prefix, i), int64(i+1)))
	}
	return all
}

// check compares the counts of bundles with their records and documents (K2, K3).
func (w *world) check(t testing.TB) {
	t.Helper()
	for what, query := range map[string]string{
		"a bundle has ended and is not counted": `SELECT COUNT(*) FROM bundles WHERE state IN ('done', 'rejected')
			AND declared <> accepted + rejected + duplicates + conflicts`,
		"records say something else than the counts": `SELECT COUNT(*) FROM bundles b WHERE
			accepted <> (SELECT COALESCE(SUM(counts), 0) FROM bundle_records r WHERE r.bundle_id = b.id AND r.outcome = 'accepted') OR
			duplicates <> (SELECT COALESCE(SUM(counts), 0) FROM bundle_records r WHERE r.bundle_id = b.id AND r.outcome = 'duplicate') OR
			conflicts <> (SELECT COALESCE(SUM(counts), 0) FROM bundle_records r WHERE r.bundle_id = b.id AND r.outcome = 'conflict') OR
			rejected + surplus <> (SELECT COALESCE(SUM(counts), 0) FROM bundle_records r WHERE r.bundle_id = b.id AND r.outcome = 'rejected')`,
		"a document was accepted by no bundle, or by several": `SELECT COUNT(*) FROM documents d WHERE 1 <> (SELECT COUNT(*) FROM bundle_records r
			WHERE r.document_id = d.id AND r.outcome = 'accepted')`,
		"a record names a document that is not there": `SELECT COUNT(*) FROM bundle_records r LEFT JOIN documents d ON d.id = r.document_id
			WHERE r.document_id IS NOT NULL AND d.id IS NULL`,
		"a conflict is open and its document does not say so": `SELECT COUNT(*) FROM documents d WHERE (d.state = 'conflict') <>
			EXISTS (SELECT 1 FROM document_conflicts c WHERE c.document_id = d.id AND c.state = 'open')`,
	} {
		if n := w.count(t, query); n != 0 {
			t.Errorf("%s: %d times", what, n)
		}
	}
}

// count returns the number that a query selects.
func (w *world) count(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := w.db.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// sums returns the state, reason and counts of a bundle in one line.
func sums(v Bundle) string {
	reason := ""
	if v.Reason != nil {
		reason = " " + *v.Reason
	}
	return fmt.Sprintf("%s%s %d=%d+%d+%d+%d", v.State, reason, v.Declared, v.Accepted, v.Rejected, v.Duplicate, v.Conflict)
}

// wantSums compares sums of a bundle.
func wantSums(t testing.TB, v Bundle, want string) {
	t.Helper()
	if got := sums(v); got != want {
		t.Errorf("it is %s, want %s (%s)", got, want, v.Detail)
	}
}
