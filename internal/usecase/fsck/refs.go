package fsck

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// count is a blob with what it says of its references and what they are.
type count struct {
	id   drive.BlobID
	file string
	refs int64
	real int64
}

func scanCount(c *count, scan func(...any) error) error {
	return scan(&c.id, &c.file, &c.refs, &c.real)
}

const selectCount = `SELECT b.id, b.file, b.refs, (SELECT COUNT(*) FROM versions v WHERE v.blob_id = b.id)
	+ (SELECT COUNT(*) FROM export_pins x WHERE x.blob_id = b.id) FROM blobs b `

// checkRefs compares every blob's references with its versions and with what batches hold, in one
// statement and so at one moment.
func (p *pass) checkRefs(ctx context.Context) error {
	query := selectCount + `WHERE b.id > ? ORDER BY b.id LIMIT ?`
	err := each(ctx, p, query, pageSize, scanCount, func(c count) any { return c.id }, func(c count) error {
		if c.refs == c.real {
			return nil
		}
		loose := "" // the file of a blob that has gone
		return p.found(ctx, defect{Finding: c.finding(), fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (still bool, err error) {
			loose, still, err = p.fixRefs(ctx, tx, c.id, f)
			return still, err
		}, fix: func(ctx context.Context) error { return p.moveLoose(ctx, loose) }})
	})
	if err != nil {
		return fmt.Errorf("check references: %w", err)
	}
	return nil
}

func (c count) finding() Finding {
	return Finding{
		Invariant: "B2", Subject: "blob " + c.id.String(), Expected: fmt.Sprintf("refs %d", c.real), Found: fmt.Sprintf("refs %d", c.refs),
	}
}

// fixRefs counts again within the transaction. A blob without any of them is released as its last
// one would have done; its file, which is returned, does not wait to be deleted: nobody can say
// where its versions went.
func (p *pass) fixRefs(ctx context.Context, tx *sqldb.Tx, id drive.BlobID, f *Finding) (loose string, still bool, err error) {
	// Who adds or takes away a version has locked its blob first.
	if err := tx.QueryRow(ctx, `SELECT id FROM blobs WHERE id = ?`+tx.ForUpdate(), id).Scan(&id); drive.IsKind(err, drive.NotFound) {
		return "", false, nil
	} else if err != nil {
		return "", false, err
	}
	var c count
	err = scanCount(&c, tx.QueryRow(ctx, selectCount+`WHERE b.id = ?`, id).Scan)
	if drive.IsKind(err, drive.NotFound) || err == nil && c.refs == c.real {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	if _, err = tx.Exec(ctx, `UPDATE blobs SET refs = ? WHERE id = ?`, max(1, c.real), id); err == nil && c.real == 0 {
		err = p.Content.Release(ctx, tx, drive.AccountID{}, id)
		loose = c.file
	}
	again := c.finding()
	f.Expected, f.Found, f.Repaired = again.Expected, again.Found, true
	return loose, true, err
}

// moveLoose puts the file of a blob that had no references into quarantine and forgets that it was
// released. The finding is the blob's. A crash in between leaves the released row, and nothing to
// delete.
func (p *pass) moveLoose(ctx context.Context, file string) error {
	shard, ok := blob.ShardOf(file)
	if !ok {
		return nil
	}
	s := blob.Stray{Place: blob.PlaceIn(shard, file), Name: file}
	if err := p.Store.Quarantine(ctx, s); err != nil {
		return fmt.Errorf("quarantine %s: %w", s.Place, err)
	}
	p.Counters.Quarantined.Add(1)
	return p.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return p.Content.Forget(ctx, tx, []string{file}) })
}

// version is a version with what it should agree with; the pointers are nil where that is not
// there.
type version struct {
	id      drive.VersionID
	node    drive.NodeID
	account drive.AccountID
	blob    drive.BlobID
	size    drive.ByteSize
	blobs   *drive.ByteSize // size of its blob
	owner   *string         // account of its node
}

func scanVersion(v *version, scan func(...any) error) error {
	return scan(&v.id, &v.node, &v.account, &v.blob, &v.size, &v.blobs, &v.owner)
}

// checkVersions finds versions whose blob or node is not there or another's. The database's own
// keys should make that impossible, so there is nothing to repair it with.
func (p *pass) checkVersions(ctx context.Context) error {
	const query = `SELECT v.id, v.node_id, v.account_id, v.blob_id, v.size, b.size, n.account_id FROM versions v
		LEFT JOIN blobs b ON b.id = v.blob_id LEFT JOIN nodes n ON n.id = v.node_id WHERE v.id > ? ORDER BY v.id LIMIT ?`
	err := each(ctx, p, query, pageSize, scanVersion, func(v version) any { return v.id }, func(v version) error {
		p.report.Checked.Versions++
		f := Finding{Subject: "version " + v.id.String(), Nodes: []drive.NodeID{v.node}}
		switch {
		case v.blobs == nil:
			f.Invariant, f.Expected, f.Found = "P1", "blob "+v.blob.String(), "no such blob"
		case *v.blobs != v.size:
			f.Invariant, f.Expected, f.Found = "P1", fmt.Sprintf("size %d, as its blob has", *v.blobs), fmt.Sprintf("size %d", v.size)
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
