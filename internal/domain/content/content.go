// Package content manages the rows of blobs: their digests, aliases, and reference counts.
//
// It owns the tables blobs, aliases, released, owed_files and owed. It reads bytes only to verify
// them (Inspector), and writes none. B2: a blob without references is deleted, one with references
// never. The last Release deletes the row and inserts a released row in the same transaction. The
// file is deleted later, and until then the released row explains it (B3). The account that
// released a file owes its bytes until the file is deleted.
package content

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Content gives access to the rows of blobs. The zero value is ready to use; Now defaults to
// time.Now.
type Content struct{ Now func() time.Time }

// Blob is the row of a blob without its parts.
type Blob struct {
	ID       drive.BlobID
	File     string // name in the blob store
	Sum      digest.Sum
	Size     drive.ByteSize
	PartSize drive.ByteSize
	CRC32    uint32
	Refs     int64 // number of references
	Created  drive.Time
	Scrubbed drive.Time // when all bytes were verified last, including on arrival
	Damaged  drive.Time // when the bytes were found missing or changed; zero: not damaged
}

// NewContent describes content that was just stored under File and verified.
type NewContent struct {
	ID       drive.BlobID // chosen before the transaction (I1)
	File     string
	Sum      digest.Sum
	Size     drive.ByteSize
	PartSize drive.ByteSize
	CRC32    uint32
	Parts    []byte          // packed, see PackParts
	Aliases  digest.Set      // verified by the server, never only declared
	Account  drive.AccountID // account that owes the file if the content exists already
	Unsound  string          // file of an existing blob with the same content that Inspector.Prepare found unsound; Attach replaces it
}

// now returns the current time.
func (c Content) now() drive.Time {
	if c.Now == nil {
		return drive.TimeOf(time.Now())
	}
	return drive.TimeOf(c.Now())
}

// columns are the columns of blobs that scanBlob reads.
const columns = `id, file, digest, size, part_size, crc32, refs, created_at, scrubbed_at, damaged_at`

// scanBlob reads columns into b and decodes the digest. It fails with the error of scan, or if the
// stored digest is not the hex form of a Sum.
func scanBlob(b *Blob, scan func(dest ...any) error) error {
	var sum string
	if err := scan(&b.ID, &b.File, &sum, &b.Size, &b.PartSize, &b.CRC32, &b.Refs, &b.Created, &b.Scrubbed, &b.Damaged); err != nil {
		return err
	}
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != len(b.Sum) {
		return fmt.Errorf("blob %s has the digest %q", b.ID, sum)
	}
	copy(b.Sum[:], raw)
	return nil
}

// Find returns one blob; NotFound if it does not exist.
func (c Content) Find(ctx context.Context, q sqldb.Querier, id drive.BlobID) (Blob, error) {
	var b Blob
	err := scanBlob(&b, q.QueryRow(ctx, `SELECT `+columns+` FROM blobs WHERE id = ?`, id).Scan)
	if err != nil {
		return Blob{}, fmt.Errorf("find blob %s: %w", id, err)
	}
	return b, nil
}

// Attach adds one reference to content that was just stored. If the content exists, the existing
// blob is referenced and the new file released (reused is true); otherwise the file becomes a blob.
// A blob that is damaged, or unsound by Inspector.Prepare, is healed: the new file replaces the old
// one. If another transaction stores the same content concurrently, the error makes sqldb run this
// transaction again.
func (c Content) Attach(ctx context.Context, tx *sqldb.Tx, n NewContent) (id drive.BlobID, reused bool, err error) {
	same, err := c.bySum(ctx, tx, n.Sum, n.Size)
	switch {
	case drive.IsKind(err, drive.NotFound):
		id, err = n.ID, retryIfChanged(c.insert(ctx, tx, n))
	case err != nil:
		return drive.BlobID{}, false, err
	case same.File == n.File:
		return drive.BlobID{}, false, fmt.Errorf("file %s is attached already", n.File)
	case n.replaces(same):
		id, err = same.ID, c.heal(ctx, tx, same, n)
	default:
		id, reused = same.ID, true
		if err = retryIfChanged(c.Ref(ctx, tx, same.ID)); err == nil {
			err = c.release(ctx, tx, n.Account, n.File, n.Size)
		}
	}
	if err != nil {
		return drive.BlobID{}, false, err
	}
	return id, reused, c.addAliases(ctx, tx, id, n.Aliases)
}

// retryIfChanged converts a conflict with a concurrent transaction (NotFound, duplicate key) to an
// error that makes sqldb run the transaction again.
func retryIfChanged(err error) error {
	if drive.IsKind(err, drive.NotFound) || sqldb.IsDuplicate(err) {
		return sqldb.Rerun(err)
	}
	return err
}

// bySum returns the blob with that digest and size; NotFound if there is none.
func (c Content) bySum(ctx context.Context, q sqldb.Querier, sum digest.Sum, size drive.ByteSize) (Blob, error) {
	var b Blob
	err := scanBlob(&b, q.QueryRow(ctx, `SELECT `+columns+` FROM blobs WHERE algo = 'blake3' AND digest = ? AND size = ?`,
		hex.EncodeToString(sum[:]), size).Scan)
	return b, err
}

// insert inserts the row of a blob with one reference. It adds no aliases. A blob with the same
// digest and size violates a unique key.
func (c Content) insert(ctx context.Context, tx *sqldb.Tx, n NewContent) error {
	_, err := tx.Exec(ctx, `INSERT INTO blobs
		(id, file, algo, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts) VALUES (?, ?, 'blake3', ?, ?, ?, ?, 1, ?, ?, ?)`,
		n.ID, n.File, hex.EncodeToString(n.Sum[:]), n.Size, n.PartSize, n.CRC32, c.now(), c.now(), n.Parts)
	if err != nil {
		return fmt.Errorf("insert blob %s: %w", n.ID, err)
	}
	return nil
}

// replaces reports whether n's file is to replace the file of the blob same.
func (n NewContent) replaces(same Blob) bool {
	return same.Damaged != 0 || n.Unsound != "" && n.Unsound == same.File
}

// heal makes the file of n the file of the damaged blob old, adds a reference, clears the damage,
// and releases the old file for deletion. It returns an error to retry if a concurrent transaction
// has healed or deleted the blob.
func (c Content) heal(ctx context.Context, tx *sqldb.Tx, old Blob, n NewContent) error {
	changed, err := tx.Exec(ctx, `UPDATE blobs SET file = ?, part_size = ?, crc32 = ?, parts = ?, refs = refs + 1, damaged_at = 0, scrubbed_at = ?
		WHERE id = ? AND file = ?`, n.File, n.PartSize, n.CRC32, n.Parts, c.now(), old.ID, old.File)
	if err != nil {
		return fmt.Errorf("heal blob %s: %w", old.ID, err)
	}
	if changed == 0 { // healed or deleted by a concurrent transaction
		return retryIfChanged(drive.Fail(drive.NotFound))
	}
	return c.release(ctx, tx, drive.AccountID{}, old.File, old.Size)
}

// addAliases inserts the digests of a blob in set that are not stored yet; BLAKE3, which is in the
// blob's own row, is skipped. An alias that another row has already taken is left as it is.
func (c Content) addAliases(ctx context.Context, tx *sqldb.Tx, id drive.BlobID, set digest.Set) error {
	for algo, sum := range set {
		if algo == digest.Blake3 {
			continue
		}
		_, err := tx.InsertNew(ctx, `INSERT INTO aliases (algo, digest, blob_id) VALUES (?, ?, ?)`, string(algo), hex.EncodeToString(sum), id)
		if err != nil {
			return fmt.Errorf("add an alias of blob %s: %w", id, err)
		}
	}
	return nil
}

// Ref adds one reference to a blob, which keeps its content from being deleted; it counts when tx
// commits. It returns NotFound if the blob does not exist or has no reference left.
func (c Content) Ref(ctx context.Context, tx *sqldb.Tx, id drive.BlobID) error {
	n, err := tx.Exec(ctx, `UPDATE blobs SET refs = refs + 1 WHERE id = ? AND refs > 0`, id)
	if err != nil {
		return fmt.Errorf("reference blob %s: %w", id, err)
	}
	if n == 0 {
		return drive.Fail(drive.NotFound)
	}
	return nil
}

// ReleaseAll removes one reference of the account from each of ids, in the order of the ids, so
// that concurrent calls do not deadlock. The last reference of a blob deletes its row and releases
// its file. It stops at the first error.
func (c Content) ReleaseAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, ids ...drive.BlobID) error {
	return forEachInOrder(ids, func(id drive.BlobID) error { return c.Release(ctx, tx, account, id) })
}

// RefAll adds one reference to each of ids, in ascending order of the ids, so that concurrent calls
// do not deadlock. It stops at the first error: NotFound if a blob does not exist or has no
// reference left.
func (c Content) RefAll(ctx context.Context, tx *sqldb.Tx, ids ...drive.BlobID) error {
	return forEachInOrder(ids, func(id drive.BlobID) error { return c.Ref(ctx, tx, id) })
}

// forEachInOrder calls do for ids in ascending order, so that concurrent transactions do not
// deadlock. It stops at the first error.
func forEachInOrder(ids []drive.BlobID, do func(drive.BlobID) error) error {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(x, y drive.BlobID) int { return bytes.Compare(x[:], y[:]) })
	for _, id := range ids {
		if err := do(id); err != nil {
			return err
		}
	}
	return nil
}

// Release removes one reference of the account. The last one deletes the row and releases the file;
// the account owes the file's bytes until the file is deleted. With the zero account no account
// owes them.
func (c Content) Release(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.BlobID) error {
	n, err := tx.Exec(ctx, `UPDATE blobs SET refs = refs - 1 WHERE id = ? AND refs > 1`, id)
	if err != nil {
		return fmt.Errorf("release blob %s: %w", id, err)
	}
	if n == 1 {
		return nil
	}
	return c.releaseLast(ctx, tx, account, id)
}

// releaseLast locks the row and removes the last reference, or one of several if another was added
// meanwhile.
func (c Content) releaseLast(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.BlobID) error {
	var b Blob
	err := scanBlob(&b, tx.QueryRow(ctx, `SELECT `+columns+` FROM blobs WHERE id = ?`+tx.ForUpdate(), id).Scan)
	if err != nil {
		return fmt.Errorf("find blob %s: %w", id, err)
	}
	if b.Refs > 1 {
		_, err = tx.Exec(ctx, `UPDATE blobs SET refs = refs - 1 WHERE id = ?`, id)
		return err
	}
	for _, gone := range []string{`DELETE FROM aliases WHERE blob_id = ?`, `DELETE FROM blobs WHERE id = ?`} {
		if _, err := tx.Exec(ctx, gone, id); err != nil {
			return fmt.Errorf("delete blob %s: %w", id, err)
		}
	}
	return c.release(ctx, tx, account, b.File, b.Size)
}

// Aliases returns the verified digests of a blob, BLAKE3 included. A missing blob has an empty set
// and no error.
func (c Content) Aliases(ctx context.Context, q sqldb.Querier, id drive.BlobID) (digest.Set, error) {
	rows, err := q.Query(ctx, `SELECT algo, digest FROM blobs WHERE id = ? UNION ALL SELECT algo, digest FROM aliases WHERE blob_id = ?`, id, id)
	type pair struct{ algo, sum string }
	pairs, err := sqldb.Scan(rows, err, func(p *pair, scan func(dest ...any) error) error { return scan(&p.algo, &p.sum) })
	if err != nil {
		return nil, fmt.Errorf("read the digests of blob %s: %w", id, err)
	}
	set := digest.Set{}
	for _, p := range pairs {
		if set[digest.Algo(p.algo)], err = hex.DecodeString(p.sum); err != nil {
			return nil, fmt.Errorf("blob %s has the alias %q: %w", id, p.sum, err)
		}
	}
	return set, nil
}

// AliasesMany returns the verified digests of several blobs, BLAKE3 included, by blob. Missing
// blobs are not in the map. It fails if a stored digest is damaged.
func (c Content) AliasesMany(ctx context.Context, q sqldb.Querier, ids []drive.BlobID) (map[drive.BlobID]digest.Set, error) {
	all := make(map[drive.BlobID]digest.Set, len(ids))
	for some := range slices.Chunk(ids, 500) { // a statement has room for a few thousand ids
		args := make([]any, 0, 2*len(some))
		for range 2 {
			for _, id := range some {
				args = append(args, id)
			}
		}
		in := " IN (" + sqldb.Placeholders(len(some)) + ")"
		rows, err := q.Query(ctx, "SELECT id, algo, digest FROM blobs WHERE id"+in+" UNION ALL SELECT blob_id, algo, digest FROM aliases WHERE blob_id"+in, args...)
		type entry struct {
			id        drive.BlobID
			algo, sum string
		}
		entries, err := sqldb.Scan(rows, err, func(e *entry, scan func(dest ...any) error) error { return scan(&e.id, &e.algo, &e.sum) })
		if err != nil {
			return nil, fmt.Errorf("read the digests of %d blobs: %w", len(some), err)
		}
		for _, e := range entries {
			if all[e.id] == nil {
				all[e.id] = digest.Set{}
			}
			if all[e.id][digest.Algo(e.algo)], err = hex.DecodeString(e.sum); err != nil {
				return nil, fmt.Errorf("blob %s has the alias %q: %w", e.id, e.sum, err)
			}
		}
	}
	return all, nil
}

// Parts returns the packed parts of a blob; NotFound if it does not exist.
func (c Content) Parts(ctx context.Context, q sqldb.Querier, id drive.BlobID) ([]byte, error) {
	var packed []byte
	if err := q.QueryRow(ctx, `SELECT parts FROM blobs WHERE id = ?`, id).Scan(&packed); err != nil {
		return nil, fmt.Errorf("read the parts of blob %s: %w", id, err)
	}
	return packed, nil
}
