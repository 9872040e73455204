package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// blobRow is a row of blobs with what it says about its file.
type blobRow struct {
	id      drive.BlobID
	file    string
	size    drive.ByteSize
	damaged drive.Time
}

// scanBlobRow reads a row of selectBlobRows into b by calling scan, and returns the error of scan.
func scanBlobRow(b *blobRow, scan func(...any) error) error {
	return scan(&b.id, &b.file, &b.size, &b.damaged)
}

// selectBlobRows selects blobs for scanBlobRow.
const selectBlobRows = `SELECT id, file, size, damaged_at FROM blobs `

// lookBlob returns the defect of a blob whose file is missing, has another size or was found
// damaged, or nil. It reads the row, the file, and the row again. A file is deleted only after its
// row is deleted or names another file, so if both reads name a missing file, the row is wrong.
func (p *pass) lookBlob(ctx context.Context, id drive.BlobID) (*defect, error) {
	b, found, err := p.findBlobRow(ctx, id)
	if err != nil || !found {
		return nil, err
	}
	state, err := p.fileState(ctx, b)
	if err != nil {
		return nil, err
	}
	again, found, err := p.findBlobRow(ctx, id)
	if err != nil || !found || again.file != b.file {
		return nil, err
	}
	switch {
	case state != "":
		if err := p.checkMounted(ctx); err != nil { // the store may have been unmounted during the pass
			return nil, fmt.Errorf("the file of blob %s is not as it was: %w", id, err)
		}
		return p.damage(ctx, b, "P1", fmt.Sprintf("file %s of %d bytes", b.file, b.size), state)
	case b.damaged != 0:
		return p.damage(ctx, b, "B1", "sound bytes", "found damaged at "+b.damaged.String())
	}
	return nil, nil
}

// findBlobRow reads the row of a blob. found is false, without an error, if there is none.
func (p *pass) findBlobRow(ctx context.Context, id drive.BlobID) (b blobRow, found bool, err error) {
	err = scanBlobRow(&b, p.DB.QueryRow(ctx, selectBlobRows+`WHERE id = ?`, id).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return b, false, nil
	}
	return b, err == nil, err
}

// maxNodes is the largest number of nodes listed in a finding.
const maxNodes = 100

// damage returns the defect of a blob whose bytes do not match its row. The bytes cannot be
// restored here. The repair only marks the blob as damaged, so that nothing links to it and the
// next upload of the same content replaces it. It also makes the blob due for the scrub, which
// removes the mark if the bytes can be read again.
func (p *pass) damage(ctx context.Context, b blobRow, invariant, expected, found string) (*defect, error) {
	rows, err := p.DB.Query(ctx, `SELECT DISTINCT node_id FROM versions WHERE blob_id = ? ORDER BY node_id LIMIT ?`, b.id, maxNodes)
	nodes, err := sqldb.Scan(rows, err, func(id *drive.NodeID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, fmt.Errorf("list the nodes of blob %s: %w", b.id, err)
	}
	f := Finding{Invariant: invariant, Subject: "blob " + b.id.String(), Expected: expected, Found: found, Nodes: nodes}
	return &defect{Finding: f, onlyMarks: true, fixTx: func(ctx context.Context, tx *sqldb.Tx, _ *Finding) (bool, error) {
		n, err := tx.Exec(ctx, `UPDATE blobs SET damaged_at = ?, scrubbed_at = 0 WHERE id = ? AND file = ? AND damaged_at = 0`, p.now(), b.id, b.file)
		if err != nil || n == 1 {
			tx.AfterCommit(func() { p.Counters.Damaged.Add(n) })
			return true, err
		}
		var there int
		err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM blobs WHERE id = ? AND file = ?`, b.id, b.file).Scan(&there)
		return there == 1, err
	}}, nil
}
