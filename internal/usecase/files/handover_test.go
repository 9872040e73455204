package files_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/activity/activitytest"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

// newHandoverPair returns a drive to hand over and its receiver.
func newHandoverPair(t *testing.T) (from, to *fixture) {
	t.Helper()
	from = newFixture(t, small)
	to = newFixtureAt(t, from.db, from.store, small)
	t.Cleanup(func() { activitytest.Check(t, to.db, to.who.Account) })
	return from, to
}

// beginHandover starts to hand the drive over.
func (f *fixture) beginHandover(t tb, to *fixture) drive.OperationID {
	t.Helper()
	var o files.Operation
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if err := files.LockBoth(ctx, quota.Ledger{}, tx, f.who.Account, to.who.Account); err != nil {
			return err
		}
		tx.SetActor(f.who)
		o, _, err = f.Handovers.Begin(ctx, tx, f.who, files.Handover{From: f.who.Account, To: to.who.Account, Owner: to.who.User, Folder: "Files of d"})
		return err
	})
	return o.ID
}

// allRows lists every node of the drive except the root, with trash, ids and versions; folders by
// path only.
func (f *fixture) allRows(t tb) (lines []string) {
	t.Helper()
	rows, err := f.db.Query(t.Context(), `WITH RECURSIVE down (id, path, trashed) AS (
			SELECT root_id, CAST('' AS CHAR(4000)), seq - seq FROM trees WHERE account_id = ?
			UNION ALL
			SELECT n.id, `+concat(f.db, "down.path", "'/'", "n.name")+`, n.trashed_at FROM down JOIN nodes n ON n.parent_id = down.id)
		SELECT down.path, down.trashed, CASE WHEN n.type = 'file' THEN n.id ELSE '' END, (SELECT COUNT(*) FROM versions v WHERE v.node_id = n.id AND v.account_id = n.account_id)
		FROM down JOIN nodes n ON n.id = down.id AND n.account_id = ? WHERE n.parent_id IS NOT NULL`, f.who.Account, f.who.Account)
	lines, err = sqldb.Scan(rows, err, func(line *string, scan func(...any) error) error {
		var path, id string
		var trashed, versions int64
		err := scan(&path, &trashed, &id, &versions)
		*line = fmt.Sprintf("%s %d %s %d", path, trashed, id, versions)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

func concat(db *sqldb.DB, parts ...string) string {
	if db.Dialect() == sqldb.MySQL {
		return "CONCAT(" + strings.Join(parts, ", ") + ")"
	}
	return strings.Join(parts, " || ")
}

// fillDrive creates nested folders, versions, and trash of all kinds.
func (f *fixture) fillDrive(t tb) {
	t.Helper()
	f.makeBigFolder(t, "big")
	for i := range 4 { // two are kept
		f.put(t, "/many/versions", fmt.Sprint("version ", i))
	}
	f.folders(t, "/empty/er")
	gone := f.put(t, "/gone", "alone in the trash")
	inside := f.put(t, "/big/0/trashed", "in the trash of a folder that is live")
	f.put(t, "/bin/a/b", "in a folder in the trash")
	for _, id := range []drive.NodeID{gone.ID, inside.ID, f.get(t, "/bin").ID} {
		if _, err := f.Trash(t.Context(), f.who, id, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHandoverMovesEverything interrupts a handover after every transaction and checks both ledgers
// each time.
func TestHandoverMovesEverything(t *testing.T) {
	t.Parallel()
	d, to := newHandoverPair(t)
	d.fillDrive(t)
	to.put(t, "/mine", "was here before")
	to.folders(t, "/Files of d") // the name is taken
	to.now = to.now.Add(time.Hour)
	if _, err := to.Trash(t.Context(), to.who, to.put(t, "/young", "younger trash").ID, tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	want := d.allRows(t)
	for i, line := range want {
		want[i] = "/Files of d (2)" + line
	}
	mine := to.allRows(t)
	if o := d.finish(t, d.beginHandover(t, to)); o.State != files.Done || o.Done != int64(len(want)) || o.Total != o.Done || o.Error != "" {
		t.Errorf("%d nodes, and it ended as %+v", len(want), o)
	}
	to.checkInvariants(t)
	d.checkCounts(t)
	to.checkCounts(t)
	want = append(want, mine...)
	want = append(want, "/Files of d (2) 0  0")
	slices.Sort(want)
	if diff := cmp.Diff(want, to.allRows(t)); diff != "" {
		t.Errorf("the receiver has (-want +got):\n%s", diff)
	}
	if left := d.allRows(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	// And back, with files that have a tombstone in the first account.
	back := to.allRows(t)
	if o := to.finish(t, to.beginHandover(t, d)); o.State != files.Done || o.Done != int64(len(back)) {
		t.Errorf("the way back ended as %+v", o)
	}
	d.checkInvariants(t)
	d.checkCounts(t)
	to.checkCounts(t)
	if got := d.allRows(t); len(got) != len(back)+1 {
		t.Errorf("%d came back, want %d", len(got), len(back)+1)
	}
	var both int
	if err := d.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM tombstones s JOIN nodes n ON n.id = s.node_id AND n.account_id = s.account_id").Scan(&both); err != nil || both != 0 {
		t.Errorf("%d nodes are there and have a tombstone, %v", both, err)
	}
}

// checkCounts checks counters and due entries besides the ledger.
func (f *fixture) checkCounts(t tb) {
	t.Helper()
	for what, query := range map[string]string{
		"old versions": `SELECT COALESCE((SELECT n FROM old_versions WHERE account_id = ?), 0) - (SELECT COUNT(*) FROM versions v
			JOIN nodes n ON n.id = v.node_id WHERE n.account_id = ? AND v.id <> n.version_id)`,
		"nodes": `SELECT (SELECT node_count FROM trees WHERE account_id = ?) - (SELECT COUNT(*) FROM nodes WHERE account_id = ? AND parent_id IS NOT NULL)`,
		"trash that is older than what is due": `SELECT COUNT(*) FROM nodes n LEFT JOIN due d ON d.kind = 'trash' AND d.id = n.account_id
			WHERE n.account_id = ? AND n.account_id = ? AND n.trashed_at > 0 AND (d.since IS NULL OR d.since > n.trashed_at)`,
		"versions due of files that are not there": `SELECT COUNT(*) FROM due d LEFT JOIN nodes n ON n.id = d.id AND n.account_id = d.account_id
			WHERE d.account_id = ? AND d.account_id = ? AND d.kind = 'versions' AND n.id IS NULL`,
	} {
		var off int64
		if err := f.db.QueryRow(t.Context(), query, f.who.Account, f.who.Account).Scan(&off); err != nil || off != 0 {
			t.Errorf("%s: off by %d, %v", what, off, err)
		}
	}
}

// TestHandoverKeepsGrants: grants of others stay. The receiver needs no role in their own drive.
func TestHandoverKeepsGrants(t *testing.T) {
	t.Parallel()
	d, to := newHandoverPair(t)
	guest := newFixtureAt(t, d.db, d.store, small)
	file := d.put(t, "/a/file", "x")
	d.put(t, "/a/b/c", "x")
	a := access.New(access.Options{DB: d.db})
	give := func(node drive.NodeID, who *fixture) {
		d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := a.Grant(ctx, tx, access.Grant{Node: node, Account: d.who.Account, Principal: drive.PrincipalID(who.who.User), Kind: access.User, Role: access.Editor, By: d.who.User})
			return err
		})
	}
	folder := d.get(t, "/a/b").ID
	give(file.ID, guest)
	give(folder, guest)
	give(folder, to)
	d.finish(t, d.beginHandover(t, to))
	moved := to.get(t, "/Files of d/a/b").ID
	for _, node := range []drive.NodeID{file.ID, moved} {
		p, err := a.Enter(t.Context(), d.db, guest.who, node, access.Put)
		if node == file.ID {
			p, err = a.Enter(t.Context(), d.db, guest.who, node, access.Replace)
		}
		if err != nil || p.Who.Account != to.who.Account {
			t.Errorf("the guest at %v: %+v, %v", node, p, err)
		}
	}
	if all, err := a.ListOf(t.Context(), d.db, to.who.Account, access.Grant{}, 10); err != nil || len(all) != 2 {
		t.Errorf("granted in the receiver's drive: %+v, %v", all, err)
	}
}

// TestHandoverWaitsForQuota: a receiver without space keeps what has arrived and gets the rest
// later.
func TestHandoverWaitsForQuota(t *testing.T) {
	t.Parallel()
	d, to := newHandoverPair(t)
	for i := range 20 {
		d.put(t, fmt.Sprintf("/f%02d", i), "1234567890")
	}
	to.limit(t, 100)
	id := d.beginHandover(t, to)
	err := d.Operations.Run(t.Context(), id)
	o, _ := d.Operations.Find(t.Context(), d.who, id)
	if !drive.IsKind(err, drive.Quota) || !files.ShouldRetryLater(err) || o.State != files.Running || o.Error != "quota" || o.Done == 0 || o.Done == o.Total {
		t.Fatalf("without room: %v, %+v", err, o)
	}
	d.checkInvariants(t)
	to.checkInvariants(t)
	to.limit(t, 200)
	if o := d.finish(t, id); o.State != files.Done || o.Error != "" || o.Done != 20 {
		t.Errorf("with room it ended as %+v", o)
	}
	to.checkInvariants(t)
}

// TestHandoverMovesManyVersions: files with many versions move in small batches and wait while the
// receiver is at its limit of old versions.
func TestHandoverMovesManyVersions(t *testing.T) {
	t.Parallel()
	d, to := newHandoverPair(t)
	const each = 9
	d.tree = tree.New(tree.Options{KeepVersions: each, OnEffect: activity.New(activity.Options{DB: d.db}).RecordNode})
	for i := range 6 {
		for v := range each {
			d.put(t, fmt.Sprintf("/f%d", i), fmt.Sprint("version ", v))
		}
	}
	tight := files.New(files.Options{
		DB: d.db, Store: d.store, Batch: 20, OnStart: func(drive.OperationID) {},
		Tree: tree.New(tree.Options{MaxOldVersions: 40, OnEffect: activity.New(activity.Options{DB: d.db}).RecordNode}),
	})
	d.Files = tight
	id := d.beginHandover(t, to)
	if o, err := tight.Operations.Step(t.Context(), id); err != nil || o.Done != 2 {
		t.Fatalf("the first step handed %+v over, %v", o, err)
	}
	d.checkInvariants(t)
	to.checkInvariants(t)
	if err := tight.Operations.Run(t.Context(), id); !drive.IsKind(err, drive.TooLarge) || !files.ShouldRetryLater(err) {
		t.Fatalf("more old versions than there may be: %v", err)
	}
	if o, err := tight.Operations.Find(t.Context(), d.who, id); err != nil || o.State != files.Running || o.Error != "too-large" || o.Done != 4 {
		t.Errorf("it waits as %+v, %v", o, err)
	}
	for name := range strings.FieldsSeq("f0 f1 f2 f3") {
		op, err := to.DeletePermanently(t.Context(), to.who, to.get(t, "/Files of d/"+name).ID, tree.Expect{})
		if err != nil || op != nil {
			t.Fatal(op, err)
		}
	}
	if o := d.finish(t, id); o.State != files.Done || o.Done != 6 {
		t.Errorf("ended as %+v", o)
	}
	to.checkInvariants(t)
	d.checkCounts(t)
	to.checkCounts(t)
}

// TestHandoverSurvivesDeletedTarget deletes the target folder during a handover; the rest must
// still arrive.
func TestHandoverSurvivesDeletedTarget(t *testing.T) {
	t.Parallel()
	d, to := newHandoverPair(t)
	d.makeBigFolder(t, "big")
	total := len(d.allRows(t))
	id := d.beginHandover(t, to)
	for range 3 {
		if _, err := d.Operations.Step(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	before := len(to.allRows(t)) - 1
	top := to.get(t, "/Files of d")
	if op, err := to.DeletePermanently(t.Context(), to.who, top.ID, tree.Expect{}); err != nil {
		t.Fatal(err)
	} else if op != nil {
		to.finish(t, op.ID)
	}
	if o := d.finish(t, id); o.State != files.Done {
		t.Errorf("ended as %+v", o)
	}
	to.checkInvariants(t)
	if got := len(to.allRows(t)) - 1; got < total-before || len(d.allRows(t)) != 0 {
		t.Errorf("%d came after %d of %d were deleted, %d are left", got, before, total, len(d.allRows(t)))
	}
}

// TestHandoverSurvivesTrashedTarget trashes the target folder during a handover; the rest must not
// arrive in the trash.
func TestHandoverSurvivesTrashedTarget(t *testing.T) {
	t.Parallel()
	d, to := newHandoverPair(t)
	d.makeBigFolder(t, "big")
	total := len(d.allRows(t))
	id := d.beginHandover(t, to)
	for range 3 {
		if _, err := d.Operations.Step(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	before := len(to.allRows(t))
	top := to.get(t, "/Files of d")
	if _, err := to.Patch(t.Context(), to.who, top.ID, files.Patch{Name: "Old"}); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Trash(t.Context(), to.who, top.ID, tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	if o := d.finish(t, id); o.State != files.Done {
		t.Errorf("ended as %+v", o)
	}
	to.checkInvariants(t)
	old := 0
	for _, line := range to.allRows(t) {
		if strings.HasPrefix(line, "/Old") {
			old++
		}
	}
	to.get(t, "/Files of d") // another one
	if old > before || len(d.allRows(t)) != 0 {
		t.Errorf("%d lie in what was trashed, %d had come of %d; %d are left", old, before, total, len(d.allRows(t)))
	}
}

// TestHandoverWaitsForPurge: nodes that are being purged are deleted and not handed over.
func TestHandoverWaitsForPurge(t *testing.T) {
	t.Parallel()
	d, to := newHandoverPair(t)
	big := d.makeBigFolder(t, "big")
	d.put(t, "/kept", "x")
	op, err := d.DeletePermanently(t.Context(), d.who, big.ID, tree.Expect{})
	if err != nil || op == nil {
		t.Fatal(op, err)
	}
	id := d.beginHandover(t, to)
	if err := d.Operations.Run(t.Context(), id); !drive.IsKind(err, drive.InProgress) || !files.ShouldRetryLater(err) {
		t.Fatalf("beside a purge: %v", err)
	}
	d.finish(t, op.ID)
	if o := d.finish(t, id); o.State != files.Done {
		t.Errorf("ended as %+v", o)
	}
	if diff := cmp.Diff([]string{"/Files of d", "/Files of d/kept"}, to.ls(t)); diff != "" {
		t.Error(diff)
	}
}

// TestHandoverAppearsInFeeds runs a handover twice at once and compares both feeds with the nodes.
func TestHandoverAppearsInFeeds(t *testing.T) {
	t.Parallel()
	d, to := newHandoverPair(t)
	d.fillDrive(t)
	seen, err := d.tree.Seq(t.Context(), d.db, d.who.Account)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := d.db.Query(t.Context(), "SELECT id FROM nodes WHERE account_id = ? AND type = 'file'", d.who.Account)
	ids, err := sqldb.Scan(rows, err, func(id *drive.NodeID, scan func(...any) error) error { return scan(id) })
	if err != nil || len(ids) < 40 {
		t.Fatalf("%d files, %v", len(ids), err)
	}
	id := d.beginHandover(t, to)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- d.Operations.Run(t.Context(), id) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	d.checkInvariants(t)
	to.checkInvariants(t)
	gone, come := map[drive.NodeID]bool{}, map[drive.NodeID]bool{}
	for _, c := range d.feedAfter(t, seen) {
		gone[c.Deleted] = true
	}
	for _, c := range to.feedAfter(t, 0) {
		come[c.Node.ID] = true
	}
	for _, file := range ids {
		if !gone[file] || !come[file] {
			t.Errorf("file %v: gone %v, come %v", file, gone[file], come[file])
		}
	}
}

func (f *fixture) feedAfter(t tb, seq int64) []tree.Change {
	t.Helper()
	feed, err := f.tree.Changes(t.Context(), f.db, f.who.Account, tree.Position{Seq: seq}, 1000)
	if err != nil || feed.More {
		t.Fatal(feed.More, err)
	}
	return feed.Items
}

// folders creates the folders of a path.
func (f *fixture) folders(t tb, at string) {
	t.Helper()
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.tree.EnsureFolders(ctx, tx, f.who.Account, treetest.Path(t, at))
		return err
	})
}
