package tree

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Version is one current or former content of a file.
type Version struct {
	ID      drive.VersionID
	Node    drive.NodeID
	Blob    drive.BlobID
	Size    drive.ByteSize
	MTime   drive.Time // modification time from the client
	Mime    string
	Created drive.Time
	By      drive.UserID // zero: unknown
}

// selectVersions is the query for the columns that scanVersion reads; the caller appends the
// conditions.
const selectVersions = `SELECT id, node_id, blob_id, size, mtime, mime, created_at, created_by FROM versions `

// scanVersion reads a row of selectVersions into v.
func scanVersion(v *Version, scan func(...any) error) error {
	return scan(&v.ID, &v.Node, &v.Blob, &v.Size, &v.MTime, &v.Mime, &v.Created, &v.By)
}

// Versions returns up to limit versions of a file older than before (zero: from the newest), newest
// first.
func (r Reader) Versions(ctx context.Context, q sqldb.Querier, node drive.NodeID, before drive.VersionID, limit int) ([]Version, error) {
	top := before.String()
	if before.IsZero() {
		top = "~" // greater than every id
	}
	rows, err := q.Query(ctx, selectVersions+"WHERE node_id = ? AND id < ? ORDER BY id DESC LIMIT ?", node, top, limit)
	return sqldb.Scan(rows, err, scanVersion)
}

// FindVersion returns a version of a file, or NotFound.
func (r Reader) FindVersion(ctx context.Context, q sqldb.Querier, node drive.NodeID, id drive.VersionID) (v Version, err error) {
	err = scanVersion(&v, q.QueryRow(ctx, selectVersions+"WHERE id = ? AND node_id = ?", id, node).Scan)
	return v, err
}

// AddVersion makes the content of f the current version of the live file n. The place and name in f
// are ignored. The caller must release the contents in PutResult.Dropped. It fails with the error
// of Options.CheckReplace. After an error tx must be rolled back.
func (t *Tree) AddVersion(ctx context.Context, tx *sqldb.Tx, n Node, f File) (PutResult, error) {
	dropped, err := t.addVersion(ctx, tx, &n, f)
	return PutResult{Node: n, Dropped: dropped}, err
}

// addVersion makes f the current version of the file n: it changes *n in place, writes the rows of
// the node and of the version, and calls Options.CheckReplace before and Options.OnPlaced
// afterwards. It returns the old versions that it deleted to stay within the limits, maxDropped at
// most; the caller must release their contents. On an error tx must be rolled back.
func (t *Tree) addVersion(ctx context.Context, tx *sqldb.Tx, n *Node, f File) ([]Version, error) {
	if err := t.opt.CheckReplace(ctx, tx, *n, f.author()); err != nil {
		return nil, err
	}
	was := *n
	n.Version, n.Blob, n.Size, n.Mime, n.MTime = f.versionID(), f.Blob, f.Size, f.Mime, f.MTime
	if err := t.updateBy(ctx, tx, was, n, f.author()); err != nil {
		return nil, err
	}
	if err := t.insertVersion(ctx, tx, *n, f.By); err != nil {
		return nil, err
	}
	if err := t.opt.OnPlaced(ctx, tx, *n); err != nil {
		return nil, err
	}
	dropped, err := t.dropOld(ctx, tx, *n, maxDropped)
	if err != nil {
		return nil, err
	}
	if dropped, err = t.countOldVersion(ctx, tx, *n, dropped); err != nil {
		return dropped, err
	}
	return dropped, t.addDueVersions(ctx, tx, n.Account, n.ID)
}

// insertVersions is the beginning of the statement that inserts the rows of versionRow.
const insertVersions = `INSERT INTO versions (id, node_id, account_id, blob_id, size, mtime, mime, created_at, created_by)`

// versionRow returns the values of insertVersions for the current version of n.
func versionRow(n Node, by drive.UserID) []any {
	return []any{n.Version, n.ID, n.Account, n.Blob, n.Size, n.MTime, n.Mime, n.Updated, by.String()}
}

// insertVersion inserts a row with the content, size, MIME type and id of n's current version; by
// is recorded as its author. It does not change the row of the node.
func (t *Tree) insertVersion(ctx context.Context, tx *sqldb.Tx, n Node, by drive.UserID) error {
	return wrap(tx.InsertRows(ctx, insertVersions, [][]any{versionRow(n, by)}), "insert version", n.Version)
}

// maxDropped bounds the versions of a file that one transaction drops, so that a write after a long
// pause does not delete hundreds. The rest is dropped by later writes or by the purge of due
// versions.
const maxDropped = 50

// DropVersions deletes up to limit versions of a file, oldest first, that are not current, not
// among the last KeepVersions, and older than the account's retention period. It returns them. It
// is not a change of the node.
func (t *Tree) DropVersions(ctx context.Context, tx *sqldb.Tx, node Node, limit int) ([]Version, error) {
	old, err := t.dropOld(ctx, tx, node, limit)
	if err != nil {
		return nil, err
	}
	return old, subtractOldVersions(ctx, tx, node.Account, int64(len(old)))
}

// notKeptWhere selects the versions of a file that are not protected by KeepVersions: neither
// current nor among the last. Its arguments are the file, the file, KeepVersions, the file.
const notKeptWhere = `node_id = ?
	AND id < (SELECT MIN(id) FROM (SELECT id FROM versions WHERE node_id = ? ORDER BY id DESC LIMIT ?) AS newest)
	AND id <> (SELECT version_id FROM nodes WHERE id = ?)`

// dropOld deletes up to limit old versions of a file that are beyond KeepVersions and older than
// the retention period, that of the space if it has its own, and returns them; the caller must
// release their contents. It does not update the count of old versions.
func (t *Tree) dropOld(ctx context.Context, tx *sqldb.Tx, node Node, limit int) ([]Version, error) {
	now := t.retentionNow()
	return t.dropVersionsWhere(ctx, tx, node.ID, limit, `created_at < COALESCE((
		SELECT CASE WHEN s.version_days > 0 THEN ? - s.version_days * 86400000 END FROM spaces s WHERE s.account_id = ?), ?)`,
		now, node.Account, now.Add(-t.opt.KeepVersionsFor))
}

// dropVersionsWhere deletes and returns up to limit unprotected versions of a file that match the
// condition which, oldest first.
func (t *Tree) dropVersionsWhere(ctx context.Context, tx *sqldb.Tx, node drive.NodeID, limit int, which string, args ...any) ([]Version, error) {
	args = append(append([]any{node, node, t.opt.KeepVersions, node}, args...), limit)
	rows, err := tx.Query(ctx, selectVersions+"WHERE "+notKeptWhere+" AND "+which+" ORDER BY id LIMIT ?", args...)
	old, err := sqldb.Scan(rows, err, scanVersion)
	if err != nil {
		return nil, err
	}
	for _, v := range old {
		if _, err := tx.Exec(ctx, "DELETE FROM versions WHERE id = ?", v.ID); err != nil {
			return nil, wrap(err, "delete version", v.ID)
		}
	}
	return old, nil
}

// DropVersion deletes a version of a file and returns it. It deletes and returns nothing if the
// version does not exist or is current.
func (t *Tree) DropVersion(ctx context.Context, tx *sqldb.Tx, node Node, id drive.VersionID) ([]Version, error) {
	if id == node.Version {
		return nil, nil
	}
	v, err := t.FindVersion(ctx, tx, node.ID, id)
	if drive.IsKind(err, drive.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM versions WHERE id = ?", id); err != nil {
		return nil, wrap(err, "delete version", id)
	}
	return []Version{v}, subtractOldVersions(ctx, tx, node.Account, 1)
}
