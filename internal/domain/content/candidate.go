package content

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// maxCandidates bounds the blobs that one claim examines: many contents can share MD5 and size on
// purpose.
const maxCandidates = 8

// Candidates returns undamaged blobs of this size that match every digest of the claim that the
// server knows of them. A strong digest yields at most one blob; MD5 alone may yield several.
func (c Content) Candidates(ctx context.Context, q sqldb.Querier, claim digest.Set, size drive.ByteSize) ([]Blob, error) {
	for _, algo := range []digest.Algo{digest.Blake3, digest.SHA256, digest.SM3, digest.MD5} {
		sum, ok := claim[algo]
		if !ok {
			continue
		}
		blobs, err := c.byDigest(ctx, q, algo, hex.EncodeToString(sum), size)
		if err != nil {
			return nil, err
		}
		if blobs, err = c.matching(ctx, q, blobs, claim); err != nil || len(blobs) > 0 {
			return blobs, err
		}
	}
	return nil, nil
}

// byDigest returns up to maxCandidates undamaged blobs with that digest and size.
func (c Content) byDigest(ctx context.Context, q sqldb.Querier, algo digest.Algo, sum string, size drive.ByteSize) ([]Blob, error) {
	query := `SELECT ` + columns + ` FROM blobs WHERE id IN (SELECT blob_id FROM aliases WHERE algo = ? AND digest = ?)
			AND size = ? AND damaged_at = 0 LIMIT ?`
	if algo == digest.Blake3 {
		query = `SELECT ` + columns + ` FROM blobs WHERE algo = ? AND digest = ? AND size = ? AND damaged_at = 0 LIMIT ?`
	}
	rows, err := q.Query(ctx, query, string(algo), sum, size, maxCandidates)
	blobs, err := sqldb.Scan(rows, err, scanBlob)
	if err != nil {
		return nil, fmt.Errorf("find content by %s: %w", algo, err)
	}
	return blobs, nil
}

// matching returns those of blobs whose known digests do not contradict the claim, in the same
// order. It reads the digests of each with one query.
func (c Content) matching(ctx context.Context, q sqldb.Querier, blobs []Blob, claim digest.Set) ([]Blob, error) {
	var keep []Blob
	for _, b := range blobs {
		known, err := c.Aliases(ctx, q, b.ID)
		if err != nil {
			return nil, err
		}
		if compatible(known, claim) {
			keep = append(keep, b)
		}
	}
	return keep, nil
}

// compatible reports whether known and claim have the same digest for each algorithm that is in
// both. It returns true if they have no algorithm in common.
func compatible(known, claim digest.Set) bool {
	for algo, sum := range claim {
		if other, ok := known[algo]; ok && !bytes.Equal(sum, other) {
			return false
		}
	}
	return true
}

// OwnedBy reports whether a current or old version of a file of the account has this content.
func (c Content) OwnedBy(ctx context.Context, q sqldb.Querier, account drive.AccountID, id drive.BlobID) (bool, error) {
	var n int
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM versions WHERE blob_id = ? AND account_id = ?)`, id, account).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look for blob %s in account %s: %w", id, account, err)
	}
	return n == 1, nil
}
