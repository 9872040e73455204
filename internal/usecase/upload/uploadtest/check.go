package uploadtest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity/activitytest"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload"
)

// SecondInstance returns a second instance over the same database, staging and timers. It shares no
// memory with the first, so races between them are decided by rows and fences alone.
func (s *Site) SecondInstance() *upload.Sessions {
	up := s.opt.Upload
	up.Now, up.Log = s.Clock.Now, s.log
	up.OnLockOrderViolation = func(what string) { panic("locks: " + what) }
	return upload.New(s.parts, up)
}

// query returns all rows as strings. Checks use it, so that they do not depend on the code under
// test.
func (s *Site) query(t T, query string, args ...any) [][]string {
	t.Helper()
	rows, err := s.DB.Query(context.Background(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	all, err := sqldb.Scan(rows, nil, func(r *[]string, scan func(dest ...any) error) error {
		cols, err := rows.Columns()
		if err != nil {
			return err
		}
		*r = make([]string, len(cols))
		dest := make([]any, len(cols))
		for i := range dest {
			dest[i] = &(*r)[i]
		}
		return scan(dest...)
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return all
}

// CheckLedger fails the test unless the account's ledger matches the sums of Q1-Q3 and Q6.
func (s *Site) CheckLedger(t T, who drive.Who) {
	t.Helper()
	const sums = `
		SELECT l.finished, (SELECT COALESCE(SUM(size), 0) FROM versions v WHERE v.account_id = l.account_id)
				+ (SELECT COALESCE(SUM(charged), 0) FROM export_pins x WHERE x.account_id = l.account_id),
			l.reserved, (SELECT COALESCE(SUM(reserved), 0) FROM uploads u WHERE u.account_id = l.account_id AND state IN ('active', 'sealing')),
			l.unfinished, (SELECT COALESCE(SUM(held), 0) FROM uploads u WHERE u.account_id = l.account_id AND state IN ('parked', 'reclaiming'))
		FROM ledgers l WHERE l.account_id = ?`
	r := s.query(t, sums, who.Account)[0]
	for i, name := range []string{"Q1 finished", "Q2 reserved", "Q3 unfinished"} {
		if r[2*i] != r[2*i+1] {
			t.Errorf("%s is %s, and the sum is %s", name, r[2*i], r[2*i+1])
		}
	}
	const owed = `
		SELECT COALESCE((SELECT size FROM owed WHERE account_id = ?), 0), COALESCE((SELECT SUM(f.size) FROM owed_files f
			JOIN released r ON r.file = f.file WHERE f.account_id = ?), 0)`
	if r := s.query(t, owed, who.Account, who.Account)[0]; r[0] != r[1] {
		t.Errorf("Q6 owed is %s, and the sum is %s", r[0], r[1])
	}
	const wrong = `
		SELECT id, state, reserved, held, COALESCE(node_id, 'no node'), ended_at FROM uploads WHERE account_id = ? AND (
			reserved <> 0 AND state NOT IN ('active', 'sealing') OR held <> 0 AND state NOT IN ('parked', 'reclaiming') OR
			reserved < size AND state IN ('active', 'sealing') OR state = 'done' AND node_id IS NULL OR
			state IN ('done', 'gone') AND ended_at = 0)`
	for _, r := range s.query(t, wrong, who.Account) {
		t.Errorf("row: %s", strings.Join(r, " "))
	}
	s.checkHeld(t, who)
	activitytest.Check(t, s.DB, who.Account)
}

// checkHeld fails the test if a parked upload has more bytes on disk than it is charged for (Q3).
func (s *Site) checkHeld(t T, who drive.Who) {
	t.Helper()
	all, err := s.List(context.Background(), upload.ListQuery{Account: who.Account, Open: true, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		row := v.Row()
		if row.State != upload.Parked {
			continue
		}
		staged, err := s.staging.Load(context.Background(), row.Ref())
		if err != nil && !drive.IsKind(err, drive.NotFound) {
			t.Fatal(err)
		}
		if staged.Held > row.Held {
			t.Errorf("Q3: %d bytes are held for upload %s, %d are charged", staged.Held, row.ID, row.Held)
		}
	}
}

// Used returns what the account of who has used, finished+unfinished+reserved (bounded by Q4), and
// its total quota, -1 if unlimited. It fails the test on an error.
func (s *Site) Used(t T, who drive.Who) (used, total int64) {
	t.Helper()
	const q = `SELECT finished + unfinished + reserved, COALESCE(total, -1) FROM ledgers WHERE account_id = ?`
	if err := s.DB.QueryRow(context.Background(), q, who.Account).Scan(&used, &total); err != nil {
		t.Fatal(err)
	}
	return used, total
}

// CheckBlobs fails the test unless reference counts are right and each content row has its file. It
// returns the files without a row, which a crash or lost reply may leave and an auditor removes.
func (s *Site) CheckBlobs(t T) (left []string) {
	t.Helper()
	for _, r := range s.query(t, `SELECT id, refs FROM blobs b WHERE refs <> (SELECT COUNT(*) FROM versions WHERE blob_id = b.id)
		+ (SELECT COUNT(*) FROM export_pins WHERE blob_id = b.id)`) {
		t.Errorf("B2: references of blob %s", strings.Join(r, ": "))
	}
	known := map[string]bool{}
	for _, r := range s.query(t, `SELECT file, size FROM blobs`) {
		known[r[0]] = true
		if size, err := s.store.Stat(context.Background(), r[0]); err != nil || fmt.Sprint(int64(size)) != r[1] {
			t.Errorf("P1: a row says that file %s has %s bytes; it has %d, %v", r[0], r[1], size, err)
		}
	}
	for _, r := range s.query(t, `SELECT file FROM released UNION SELECT id FROM uploads WHERE state = 'sealing'
		UNION SELECT partial_id FROM upload_joins`) {
		known[r[0]] = true
	}
	err := s.store.List(context.Background(), func(x blob.Entry) error {
		if !known[x.Name] {
			left = append(left, x.Path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// Files lists the account's nodes, one line each: path, type, content digest and number of
// versions.
func (s *Site) Files(t T, who drive.Who) string {
	t.Helper()
	var all []string
	for _, r := range s.query(t, `SELECT n.id, n.type, COALESCE(b.digest, ''), (SELECT COUNT(*) FROM versions x WHERE x.node_id = n.id)
		FROM nodes n LEFT JOIN versions v ON v.id = n.version_id LEFT JOIN blobs b ON b.id = v.blob_id WHERE n.account_id = ?`, who.Account) {
		id, err := drive.ParseID[drive.NodeID](r[0])
		if err != nil {
			t.Fatal(err)
		}
		path, _, err := s.Tree.PathOf(context.Background(), s.DB, id)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, path.String()+" "+strings.Join(r[1:], " "))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// TryRead returns the content of the file at path; false if the file is missing.
func (s *Site) TryRead(t T, who drive.Who, path string) (data []byte, there bool) {
	t.Helper()
	_, err := s.Tree.Resolve(context.Background(), s.DB, who.Account, Path(t, path))
	if drive.IsKind(err, drive.NotFound) {
		return nil, false
	}
	return s.Read(t, who, path), true
}

// Staged returns the stagings without an open row. It fails the test if an open row has no staging.
func (s *Site) Staged(t T) (left []string) {
	t.Helper()
	open := map[string]bool{}
	for _, r := range s.query(t, `SELECT id FROM uploads WHERE state IN ('active', 'parked', 'sealing', 'reclaiming')
		UNION SELECT partial_id FROM upload_joins`) {
		open[r[0]] = true
	}
	there := map[string]bool{}
	err := s.staging.ListStaged(context.Background(), func(x blob.Entry) error {
		there[x.Name] = true
		if !open[x.Name] {
			left = append(left, x.Path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.query(t, `SELECT id FROM uploads WHERE state IN ('active', 'parked', 'sealing')`) {
		if there[r[0]] {
			continue
		}
		if _, err := s.store.Stat(context.Background(), r[0]); err != nil || s.opt.Shared == nil { // sealed, and its journal was lost
			t.Errorf("P1: upload %s has no staging", r[0])
		}
	}
	return left
}

// State returns the state and gen of an upload's row. It fails the test if there is no row.
func (s *Site) State(t T, id drive.UploadID) (state string, gen int64) {
	t.Helper()
	err := s.DB.QueryRow(context.Background(), `SELECT state, gen FROM uploads WHERE id = ?`, id).Scan(&state, &gen)
	if err != nil {
		t.Fatal(err)
	}
	return state, gen
}

// Reason returns the reason in an upload's row.
func (s *Site) Reason(t T, id drive.UploadID) string {
	t.Helper()
	return s.query(t, `SELECT reason FROM uploads WHERE id = ?`, id)[0][0]
}

// SetTotal changes an account's quota; 0 is unlimited.
func (s *Site) SetTotal(t T, who drive.Who, total drive.ByteSize) {
	t.Helper()
	limit := &total
	if total == 0 {
		limit = nil
	}
	err := s.DB.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
		return s.Ledger.SetTotal(ctx, tx, who.Account, limit)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// PowerLoss restarts the site as after a power loss: the boot id changes, and damage is called with
// the data file of each upload.
func (s *Site) PowerLoss(t T, damage func(file string), uploads ...upload.View) {
	t.Helper()
	if err := s.stop(); err != nil {
		t.Fatalf("stop the site: %v", err)
	}
	for _, v := range uploads {
		day := v.Row().Created.Std().Format("2006/01/02")
		damage(filepath.Join(s.Dir, "staging", filepath.FromSlash(day), v.ID.String(), "data"))
	}
	s.opt.Local.BootID = drive.NewID[drive.UploadID]().String()
	s.start(t)
	if err := s.Recover(context.Background()); err != nil {
		t.Fatalf("recover: %v", err)
	}
}
