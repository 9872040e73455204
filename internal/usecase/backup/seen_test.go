package backup_test

import (
	"context"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/backup"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Clients have seen changes after the backup: the fingerprint tells them, and no node gets a number
// that they know for another node.
func TestRestoreChangesFingerprint(t *testing.T) {
	t.Parallel()
	r := newRig(t, uploadtest.Options{})
	dest := filepath.Join(t.TempDir(), "backup")
	r.backup(t, dest, r.options())
	r.put(t, "/later", "not in the backup")
	lost := r.number(t, r.DB, "later")
	prints := map[string]bool{"": true}
	for range 2 {
		dir := t.TempDir()
		if _, err := backup.Restore(t.Context(), dest, site(dir), false, r.options()); err != nil {
			t.Fatal(err)
		}
		o := open(t, dir)
		if number := r.number(t, o.db, "b"); number <= lost {
			t.Errorf("a node is number %d, and %d was another one", number, lost)
		}
		print := o.scalar(t, `SELECT value FROM meta WHERE name = 'fingerprint'`)
		if prints[print] {
			t.Errorf("the fingerprint is %q once more", print)
		}
		prints[print] = true
	}
}

// number assigns a number to a node by name.
func (r *rig) number(t *testing.T, db *sqldb.DB, name string) (number int64) {
	t.Helper()
	var id drive.NodeID
	err := db.QueryRow(t.Context(), `SELECT id FROM nodes WHERE name = ?`, name).Scan(&id)
	if err == nil {
		err = db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return r.Tree.Number(ctx, tx, []drive.NodeID{id}) })
	}
	if err == nil {
		err = db.QueryRow(t.Context(), `SELECT number FROM node_numbers WHERE node_id = ?`, id).Scan(&number)
	}
	if err != nil {
		t.Fatal(err)
	}
	return number
}
