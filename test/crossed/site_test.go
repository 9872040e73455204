package crossed

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// instance is a process as the database sees it: it has its own connections and shares no memory.
type instance struct {
	db      *sqldb.DB
	uploads *upload.Sessions
	files   *files.Files
	tree    *tree.Tree
}

// open returns a site and two instances on its database, staging and store.
func open(t *testing.T) (*uploadtest.Site, [2]*instance) {
	t.Helper()
	sqldbtest.MySQLOnly(t)
	site, two := openSome(t, 2, "")
	return site, [2]*instance(two)
}

// openSome is open for another number of instances, and on a MySQL database of the test's own.
func openSome(t *testing.T, n int, source string) (*uploadtest.Site, []*instance) {
	t.Helper()
	site := uploadtest.New(t, uploadtest.Options{Upload: upload.Options{MaxOpen: 2000}, DB: sqldb.Options{MySQL: source}})
	some := make([]*instance, n)
	for i := range some {
		db := sqldbtest.OpenWith(t, sqldb.Options{Path: filepath.Join(site.Dir, "smartdrive.db"), MySQL: source, Connections: 32, Log: slog.New(slog.DiscardHandler)})
		in := &instance{db: db, tree: tree.New(tree.Options{KeepVersions: 2, KeepVersionsFor: 1})}
		in.uploads = upload.New(upload.Dependencies{
			DB: db, Staging: site.Local.Staging, Store: site.Local.Blobs, Tree: in.tree, Content: content.Content{}, Timers: noTimers{},
			Events: outbox.New(db, outbox.Options{Source: "smartdrive/test"}),
		}, upload.Options{MaxOpen: 2000, MinFree: 1, InstantScope: func() upload.Scope { return upload.ScopeOff }, Generation: int64(i + 1)})
		in.files = files.New(files.Options{DB: db, Tree: in.tree, Store: site.Local.Blobs, Batch: 3, Direct: 6})
		t.Cleanup(func() {
			if err := in.uploads.Close(); err != nil {
				t.Error(err)
			}
		})
		some[i] = in
	}
	return site, some
}

type noTimers struct{}

func (noTimers) Arm(context.Context, ...timer.Entry) error      { return nil }
func (noTimers) Touch(timer.Key)                                {}
func (noTimers) Cancel(context.Context, timer.Key, int64) error { return nil }

// check fails the test unless rows and sums agree.
func check(t *testing.T, db *sqldb.DB) {
	t.Helper()
	for what, query := range map[string]string{
		"Q1 finished":   "SELECT COUNT(*) FROM ledgers l WHERE finished <> (SELECT COALESCE(SUM(size), 0) FROM versions v WHERE v.account_id = l.account_id)",
		"Q2 reserved":   "SELECT COUNT(*) FROM ledgers l WHERE reserved <> (SELECT COALESCE(SUM(reserved), 0) FROM uploads u WHERE u.account_id = l.account_id AND state IN ('active', 'sealing'))",
		"Q3 unfinished": "SELECT COUNT(*) FROM ledgers l WHERE unfinished <> (SELECT COALESCE(SUM(held), 0) FROM uploads u WHERE u.account_id = l.account_id AND state IN ('parked', 'reclaiming'))",
		"Q4 total":      "SELECT COUNT(*) FROM ledgers WHERE finished + unfinished + reserved > total",
		"B2 refs":       "SELECT COUNT(*) FROM blobs b WHERE refs <> (SELECT COUNT(*) FROM versions v WHERE v.blob_id = b.id)",
		"B2 blobs":      "SELECT COUNT(*) FROM versions v LEFT JOIN blobs b ON b.id = v.blob_id WHERE b.id IS NULL OR b.size <> v.size",
		"B3 released":   "SELECT COUNT(*) FROM released r JOIN blobs b ON b.file = r.file",
		"aliases":       "SELECT COUNT(*) FROM aliases a LEFT JOIN blobs b ON b.id = a.blob_id WHERE b.id IS NULL",
		"N1 parents":    "SELECT COUNT(*) FROM nodes n LEFT JOIN nodes up ON up.id = n.parent_id WHERE n.parent_id IS NOT NULL AND (up.id IS NULL OR up.type <> 'folder' OR up.account_id <> n.account_id)",
		"N1 versions":   "SELECT COUNT(*) FROM nodes n LEFT JOIN versions v ON v.id = n.version_id AND v.node_id = n.id WHERE n.type = 'file' AND v.id IS NULL",
		"N2 count":      "SELECT COUNT(*) FROM trees t WHERE node_count <> (SELECT COUNT(*) - 1 FROM nodes n WHERE n.account_id = t.account_id)",
		"N1 reachable": `SELECT (SELECT COUNT(*) FROM nodes) - (WITH RECURSIVE below (id) AS (SELECT root_id FROM trees
			UNION ALL SELECT n.id FROM nodes n JOIN below ON n.parent_id = below.id) SELECT COUNT(*) FROM below)`,
		"one seq a change": "SELECT COUNT(*) FROM (SELECT account_id, seq FROM nodes GROUP BY account_id, seq HAVING COUNT(*) > 1) twice",
		"seq":              "SELECT COUNT(*) FROM nodes n JOIN trees t ON t.account_id = n.account_id WHERE n.seq > t.seq",
	} {
		var wrong int64
		if err := db.QueryRow(t.Context(), query).Scan(&wrong); err != nil || wrong != 0 {
			t.Errorf("%s: %d rows are wrong, %v", what, wrong, err)
		}
	}
}

// allowed reports whether an operation may fail with err while others run concurrently.
func allowed(err error) bool {
	return err == nil || errors.Is(err, context.Canceled) || drive.IsKind(err, drive.NotFound, drive.NameTaken, drive.ParentGone,
		drive.Cycle, drive.WrongState, drive.Quota, drive.VersionChanged, drive.InProgress, drive.Precondition, drive.Gone,
		drive.BadName, drive.BadRequest)
}

// person acts on one account through one instance.
type person struct {
	*instance
	who  drive.Who
	rand *rand.Rand
}

// some returns any node of the account that matches the SQL condition, or the zero id if there is
// none.
func (p *person) some(ctx context.Context, where string) (id drive.NodeID, err error) {
	err = p.db.QueryRow(ctx, "SELECT id FROM nodes WHERE account_id = ? AND parent_id IS NOT NULL AND "+where+
		" ORDER BY MD5(CONCAT(id, ?)) LIMIT 1", p.who.Account, p.rand.Int64()).Scan(&id)
	return id, err
}

var names = []string{"a", "b", "c", "d", "a ", "ä"}

func (p *person) name() drive.Name { return drive.Name(names[p.rand.IntN(len(names))]) }

func (p *person) path() drive.Path {
	path := drive.Path{p.name()}
	for p.rand.IntN(3) > 0 && len(path) < 4 {
		path = append(path, p.name())
	}
	return path
}

// put stores one of eight contents: all accounts have the same ones.
func (p *person) put(ctx context.Context) error {
	body := bytes.Repeat([]byte{byte('0' + p.rand.IntN(8))}, 100)
	conflict := []drive.Conflict{drive.ConflictReplace, drive.ConflictRename, drive.ConflictFail}[p.rand.IntN(3)]
	size := drive.ByteSize(len(body))
	if p.rand.IntN(8) == 0 {
		size, body = 0, nil
	}
	_, _, err := p.uploads.PutFile(ctx, p.who, upload.PutFile{
		Path: p.path(), Size: size, Conflict: conflict, Parents: true,
	}, bytes.NewReader(body))
	return err
}

func (p *person) begin(ctx context.Context) error {
	v, err := p.uploads.Begin(ctx, p.who, upload.Begin{
		Path: p.path(), Size: drive.ByteSize(p.rand.IntN(5000)), Parents: true, Conflict: drive.ConflictRename,
		Fingerprint: string(p.name()),
	}, nil)
	if err != nil || p.rand.IntN(3) == 0 {
		return err
	}
	return p.uploads.Cancel(ctx, p.who, v.ID)
}

func (p *person) beginUnknown(ctx context.Context) error {
	v, err := p.uploads.Begin(ctx, p.who, upload.Begin{Path: p.path(), Size: blob.UnknownSize, Parents: true, Conflict: drive.ConflictRename}, nil)
	if err != nil {
		return err
	}
	return p.uploads.Cancel(ctx, p.who, v.ID)
}

func (p *person) mkdir(ctx context.Context) error {
	path := p.path()
	above, name, _ := path.Split()
	_, err := p.files.Mkdir(ctx, p.who, files.Mkdir{Path: above, Parents: true, Name: name, Conflict: drive.ConflictRename})
	return err
}

func (p *person) move(ctx context.Context) error {
	id, err := p.some(ctx, "trashed_at = 0")
	if err != nil {
		return err
	}
	to, err := p.some(ctx, "trashed_at = 0 AND type = 'folder'")
	if err != nil {
		return err
	}
	patch := files.Patch{Parent: to, Conflict: drive.ConflictRename}
	if p.rand.IntN(2) == 0 {
		patch = files.Patch{Name: p.name(), Conflict: drive.ConflictReplace}
	}
	_, err = p.files.Patch(ctx, p.who, id, patch)
	return err
}

func (p *person) copy(ctx context.Context) error {
	id, err := p.some(ctx, "trashed_at = 0")
	if err != nil {
		return err
	}
	to, err := p.some(ctx, "trashed_at = 0 AND type = 'folder'")
	if err != nil {
		return err
	}
	r, err := p.files.Copies.Copy(ctx, p.who, id, files.Copy{Parent: to, Conflict: drive.ConflictRename})
	if err == nil && r.Operation != nil {
		err = p.files.Operations.Run(ctx, r.Operation.ID)
	}
	return err
}

func (p *person) trash(ctx context.Context) error {
	id, err := p.some(ctx, "trashed_at = 0")
	if err == nil {
		_, err = p.files.Trash(ctx, p.who, id, tree.Expect{})
	}
	return err
}

func (p *person) restore(ctx context.Context) error {
	id, err := p.some(ctx, "trashed_at > 0")
	if err == nil {
		_, err = p.files.Restore(ctx, p.who, id, drive.NodeID{}, drive.ConflictRename)
	}
	return err
}

func (p *person) remove(ctx context.Context) error {
	id, err := p.some(ctx, "1 = 1")
	if err != nil {
		return err
	}
	op, err := p.files.DeletePermanently(ctx, p.who, id, tree.Expect{})
	if err == nil && op != nil {
		err = p.files.Operations.Run(ctx, op.ID)
	}
	return err
}

func (p *person) empty(ctx context.Context) error {
	op, err := p.files.EmptyTrash(ctx, p.who, "")
	if err == nil && op != nil {
		err = p.files.Operations.Run(ctx, op.ID)
	}
	return err
}

func (p *person) goBack(ctx context.Context) error {
	id, err := p.some(ctx, "trashed_at = 0 AND type = 'file'")
	if err != nil {
		return err
	}
	versions, err := p.files.Versions(ctx, p.who, id, "", 5)
	if err != nil || len(versions.Items) == 0 {
		return err
	}
	_, err = p.files.RestoreVersion(ctx, p.who, id, versions.Items[len(versions.Items)-1].ID, nil)
	return err
}
