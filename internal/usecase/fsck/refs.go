package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// refCount is a blob with its stored and actual number of references.
type refCount struct {
	id     drive.BlobID
	file   string
	refs   int64
	actual int64
}

// scanRefCount reads a blob with its stored and its actual number of references into c by calling
// scan, and returns the error of scan.
func scanRefCount(c *refCount, scan func(...any) error) error {
	return scan(&c.id, &c.file, &c.refs, &c.actual)
}

// selectRefCounts selects blobs with their stored and actual number of references.
const selectRefCounts = `SELECT b.id, b.file, b.refs, (SELECT COUNT(*) FROM versions v WHERE v.blob_id = b.id)
	+ (SELECT COUNT(*) FROM export_pins x WHERE x.blob_id = b.id) FROM blobs b `

// checkRefs compares the reference count of each blob with its versions and export pins, read in
// one statement.
func (p *pass) checkRefs(ctx context.Context) error {
	query := selectRefCounts + `WHERE b.id > ? ORDER BY b.id LIMIT ?`
	err := each(ctx, p, query, pageSize, scanRefCount, func(c refCount) any { return c.id }, func(c refCount) error {
		if c.refs == c.actual {
			return nil
		}
		loose := "" // file of a blob without references
		return p.found(ctx, defect{Finding: c.finding(), fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (still bool, err error) {
			loose, still, err = p.fixRefs(ctx, tx, c.id, f)
			return still, err
		}, fix: func(ctx context.Context) error { return p.quarantineUnreferenced(ctx, loose) }})
	})
	if err != nil {
		return fmt.Errorf("check references: %w", err)
	}
	return nil
}

// finding returns the finding of a wrong reference count.
func (c refCount) finding() Finding {
	return Finding{
		Invariant: "B2", Subject: "blob " + c.id.String(), Expected: fmt.Sprintf("refs %d", c.actual), Found: fmt.Sprintf("refs %d", c.refs),
	}
}

// fixRefs recomputes the number of references of a blob in the transaction and describes the repair
// in f. still reports whether the defect still existed. A blob without references is released; its
// file is returned as loose, and the caller moves it to the quarantine instead of deleting it,
// because it is unknown how its versions were lost. loose is empty if no file is affected.
func (p *pass) fixRefs(ctx context.Context, tx *sqldb.Tx, id drive.BlobID, f *Finding) (loose string, still bool, err error) {
	// Adding and removing versions locks the blob first.
	if err := tx.QueryRow(ctx, `SELECT id FROM blobs WHERE id = ?`+tx.ForUpdate(), id).Scan(&id); drive.IsKind(err, drive.NotFound) {
		return "", false, nil
	} else if err != nil {
		return "", false, err
	}
	var c refCount
	err = scanRefCount(&c, tx.QueryRow(ctx, selectRefCounts+`WHERE b.id = ?`, id).Scan)
	if drive.IsKind(err, drive.NotFound) || err == nil && c.refs == c.actual {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if _, err = tx.Exec(ctx, `UPDATE blobs SET refs = ? WHERE id = ?`, max(1, c.actual), id); err == nil && c.actual == 0 {
		err = p.Content.Release(ctx, tx, drive.AccountID{}, id)
		loose = c.file
	}
	again := c.finding()
	f.Expected, f.Found, f.Repaired = again.Expected, again.Found, true
	return loose, true, err
}

// quarantineUnreferenced moves the file of a blob without references to the quarantine and deletes
// its released row. After a crash in between, the released row remains without a file.
func (p *pass) quarantineUnreferenced(ctx context.Context, file string) error {
	shard, ok := blob.ShardOf(file)
	if !ok {
		return nil
	}
	s := blob.Entry{Path: blob.ShardPath(shard, file), Name: file}
	if err := p.Store.Quarantine(ctx, s); err != nil {
		return fmt.Errorf("quarantine %s: %w", s.Path, err)
	}
	p.Counters.Quarantined.Add(1)
	return p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return p.Content.DeleteReleased(ctx, tx, []string{file})
	})
}

// version is a version with related rows. Nil pointers are missing rows.
type version struct {
	id       drive.VersionID
	node     drive.NodeID
	account  drive.AccountID
	blob     drive.BlobID
	size     drive.ByteSize
	blobSize *drive.ByteSize // size of its blob
	owner    *string         // account of its node
}

// scanVersion reads a version with its blob and node into v by calling scan, and returns the error
// of scan.
func scanVersion(v *version, scan func(...any) error) error {
	return scan(&v.id, &v.node, &v.account, &v.blob, &v.size, &v.blobSize, &v.owner)
}

// checkVersions finds versions whose blob or node is missing or belongs to another account. Foreign
// keys should prevent that, so there is no repair.
func (p *pass) checkVersions(ctx context.Context) error {
	const query = `SELECT v.id, v.node_id, v.account_id, v.blob_id, v.size, b.size, n.account_id FROM versions v
		LEFT JOIN blobs b ON b.id = v.blob_id LEFT JOIN nodes n ON n.id = v.node_id WHERE v.id > ? ORDER BY v.id LIMIT ?`
	err := each(ctx, p, query, pageSize, scanVersion, func(v version) any { return v.id }, func(v version) error {
		p.report.Checked.Versions++
		f := Finding{Subject: "version " + v.id.String(), Nodes: []drive.NodeID{v.node}}
		switch {
		case v.blobSize == nil:
			f.Invariant, f.Expected, f.Found = "P1", "blob "+v.blob.String(), "no such blob"
		case *v.blobSize != v.size:
			f.Invariant, f.Expected, f.Found = "P1", fmt.Sprintf("size %d, as its blob has", *v.blobSize), fmt.Sprintf("size %d", v.size)
		case v.owner == nil:
			f.Invariant, f.Expected, f.Found = "N1", "node "+v.node.String(), "no such node"
		case *v.owner != v.account.String():
			f.Invariant, f.Expected, f.Found = "N1", "account "+*v.owner+", as its node has", "account "+v.account.String()
		default:
			return nil
		}
		return p.found(ctx, defect{Finding: f})
	})
	if err != nil {
		return fmt.Errorf("check versions: %w", err)
	}
	return nil
}
