package tree

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Version is one content that a file has or had.
type Version struct {
	ID      drive.VersionID
	Node    drive.NodeID
	Blob    drive.BlobID
	Size    drive.ByteSize
	MTime   drive.Time
	Mime    string
	Created drive.Time
	By      drive.UserID
}

const selectVersions = `SELECT id, node_id, blob_id, size, mtime, mime, created_at, created_by FROM versions `

func scanVersion(v *Version, scan func(...any) error) error {
	return scan(&v.ID, &v.Node, &v.Blob, &v.Size, &v.MTime, &v.Mime, &v.Created, &v.By)
}

// Versions returns up to limit versions of a file, the newest first, older than before (zero: from
// the newest).
func (r Reader) Versions(ctx context.Context, q sqldb.Querier, node drive.NodeID, before drive.VersionID, limit int) ([]Version, error) {
	top := before.String()
	if before.IsZero() {
		top = "~" // sorts after every id
	}
	rows, err := q.Query(ctx, selectVersions+"WHERE node_id = ? AND id < ? ORDER BY id DESC LIMIT ?", node, top, limit)
	return sqldb.Scan(rows, err, scanVersion)
}

// FindVersion returns a version of a file.
func (r Reader) FindVersion(ctx context.Context, q sqldb.Querier, node drive.NodeID, id drive.VersionID) (v Version, err error) {
	err = scanVersion(&v, q.QueryRow(ctx, selectVersions+"WHERE id = ? AND node_id = ?", id, node).Scan)
	return v, err
}

// AddVersion makes the content the current version of a live file, whatever it is called; of f's
// place nothing is used.
func (t *Tree) AddVersion(ctx context.Context, tx *sqldb.Tx, n Node, f File) (Placed, error) {
	dropped, err := t.addVersion(ctx, tx, &n, f)
	return Placed{Node: n, Dropped: dropped}, err
}

func (t *Tree) addVersion(ctx context.Context, tx *sqldb.Tx, n *Node, f File) ([]Version, error) {
	if err := t.opt.Replaces(ctx, tx, *n, f.by()); err != nil {
		return nil, err
	}
	was := *n
	n.Version, n.Blob, n.Size, n.Mime, n.MTime = f.version(), f.Blob, f.Size, f.Mime, f.MTime
	if err := t.updateBy(ctx, tx, was, n, f.by()); err != nil {
		return nil, err
	}
	if err := t.insertVersion(ctx, tx, *n, f.By); err != nil {
		return nil, err
	}
	if err := t.opt.Arrived(ctx, tx, *n); err != nil {
		return nil, err
	}
	dropped, err := t.dropOld(ctx, tx, *n, maxDropped)
	if err != nil {
		return nil, err
	}
	if dropped, err = t.countOld(ctx, tx, *n, dropped); err != nil {
		return dropped, err
	}
	return dropped, t.noteVersions(ctx, tx, n.Account, n.ID)
}

const insertVersions = `INSERT INTO versions (id, node_id, account_id, blob_id, size, mtime, mime, created_at, created_by)`

func versionRow(n Node, by drive.UserID) []any {
	return []any{n.Version, n.ID, n.Account, n.Blob, n.Size, n.MTime, n.Mime, n.Updated, by.String()}
}

func (t *Tree) insertVersion(ctx context.Context, tx *sqldb.Tx, n Node, by drive.UserID) error {
	return wrap(tx.InsertRows(ctx, insertVersions, [][]any{versionRow(n, by)}), "insert version", n.Version)
}

// maxDropped bounds the versions that one transaction drops from a file: a replace after a long
// pause must not pay for hundreds. The rest goes with the next replace, or when it is due.
const maxDropped = 50

// DropVersions deletes up to limit versions of a file, the oldest first, that are neither the
// current one, nor among the last KeepVersions, nor younger than the account keeps them. It is not
// a change of the node.
func (t *Tree) DropVersions(ctx context.Context, tx *sqldb.Tx, node Node, limit int) ([]Version, error) {
	old, err := t.dropOld(ctx, tx, node, limit)
	if err != nil {
		return nil, err
	}
	return old, fewerOld(ctx, tx, node.Account, int64(len(old)))
}

// beyondLast is what of a file's versions is not kept whatever its age: neither the current one nor
// among the last. Its arguments are the file, the file, KeepVersions, the file.
const beyondLast = `node_id = ?
	AND id < (SELECT MIN(id) FROM (SELECT id FROM versions WHERE node_id = ? ORDER BY id DESC LIMIT ?) AS newest)
	AND id <> (SELECT version_id FROM nodes WHERE id = ?)`

// dropOld is DropVersions without counting them. A space may keep them for days of its own.
func (t *Tree) dropOld(ctx context.Context, tx *sqldb.Tx, node Node, limit int) ([]Version, error) {
	now := t.kept()
	return t.dropThose(ctx, tx, node.ID, limit, `created_at < COALESCE((
		SELECT CASE WHEN s.version_days > 0 THEN ? - s.version_days * 86400000 END FROM spaces s WHERE s.account_id = ?), ?)`,
		now, node.Account, now.Add(-t.opt.KeepVersionsFor))
}

// dropThose deletes up to limit versions of a file beyond the last for which a condition holds, the
// oldest first.
func (t *Tree) dropThose(ctx context.Context, tx *sqldb.Tx, node drive.NodeID, limit int, which string, args ...any) ([]Version, error) {
	args = append(append([]any{node, node, t.opt.KeepVersions, node}, args...), limit)
	rows, err := tx.Query(ctx, selectVersions+"WHERE "+beyondLast+" AND "+which+" ORDER BY id LIMIT ?", args...)
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

// DropVersion deletes a version of a file that is not the current one. Empty: it is gone, or is the
// current one.
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
	return []Version{v}, fewerOld(ctx, tx, node.Account, 1)
}
