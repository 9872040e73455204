package content

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// identity is digest and size of a content. Contents with the same identity share a blob.
type identity struct {
	sum  digest.Sum
	size drive.ByteSize
}

// identity returns the identity of n.
func (n NewContent) identity() identity { return identity{n.Sum, n.Size} }

// AttachAll adds one reference to each of several contents of one account that were just stored,
// with few statements, and returns the blob of each, in the same order. If a content exists
// already, its blob is referenced and the new file released. It locks rows in one order, new blobs
// by digest and existing ones by id, so that concurrent calls do not deadlock.
func (c Content) AttachAll(ctx context.Context, tx *sqldb.Tx, contents []NewContent) ([]drive.BlobID, error) {
	there, err := c.bySums(ctx, tx, contents)
	if err != nil {
		return nil, err
	}
	a := batchAttach{Content: c, ids: make([]drive.BlobID, len(contents)), newBlobs: map[identity]int{}, refs: map[drive.BlobID]int64{}}
	for i, n := range contents {
		if err := a.decide(i, n, there); err != nil {
			return nil, err
		}
	}
	return a.ids, a.write(ctx, tx, contents)
}

// bySums returns the blobs of contents by identity, including damaged ones.
func (c Content) bySums(ctx context.Context, q sqldb.Querier, contents []NewContent) (map[identity]Blob, error) {
	sums := make([]string, len(contents))
	for i, n := range contents {
		sums[i] = hex.EncodeToString(n.Sum[:])
	}
	marks, args := sqldb.ListArgs(sums)
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM blobs WHERE algo = 'blake3' AND digest IN (`+marks+`)`, args...)
	blobs, err := sqldb.Scan(rows, err, scanBlob)
	if err != nil {
		return nil, fmt.Errorf("find %d contents: %w", len(contents), err)
	}
	found := make(map[identity]Blob, len(blobs))
	for _, b := range blobs {
		found[identity{b.Sum, b.Size}] = b
	}
	return found, nil
}

// batchAttach is the state of one AttachAll.
type batchAttach struct {
	Content
	ids      []drive.BlobID         // result, by content
	newBlobs map[identity]int       // index of the first content of each new blob
	copies   []int64                // references of the new blob of each content
	refs     map[drive.BlobID]int64 // references to add to existing blobs
	released []int                  // indexes of contents whose file is not needed
	damaged  []int                  // indexes of contents whose blob exists and is to be healed
}

// decide records, without writing, what to do with contents[i], which is n. It is inserted as a new
// blob; or the same content, which is in there or earlier in the batch, gets a reference and the
// file of n is released; or n repairs a damaged blob. It fails only if the file of n is attached
// already.
func (a *batchAttach) decide(i int, n NewContent, there map[identity]Blob) error {
	a.copies = append(a.copies, 0)
	same, known := there[n.identity()]
	switch first, mine := a.newBlobs[n.identity()]; {
	case known && same.File == n.File:
		return fmt.Errorf("file %s is attached already", n.File)
	case known && n.replaces(same):
		a.damaged = append(a.damaged, i)
	case known:
		a.ids[i] = same.ID
		a.refs[same.ID]++
		a.released = append(a.released, i)
	case mine:
		a.ids[i] = a.ids[first]
		a.copies[first]++
		a.released = append(a.released, i)
	default:
		a.newBlobs[n.identity()] = i
		a.ids[i], a.copies[i] = n.ID, 1
	}
	return nil
}

// write executes the decisions of decide in tx and fills in the ids of repaired blobs. It returns
// an error to retry if a concurrent transaction changed or inserted one of the blobs.
func (a *batchAttach) write(ctx context.Context, tx *sqldb.Tx, contents []NewContent) error {
	if err := retryIfChanged(a.insertNew(ctx, tx, contents)); err != nil {
		return err
	}
	taken := make([]drive.BlobID, 0, len(a.refs))
	for id := range a.refs {
		taken = append(taken, id)
	}
	err := forEachInOrder(taken, func(id drive.BlobID) error { return retryIfChanged(a.refMany(ctx, tx, id, a.refs[id])) })
	if err != nil {
		return err
	}
	for _, i := range a.damaged { // rare; the first Attach of a blob heals it
		if a.ids[i], _, err = a.Attach(ctx, tx, contents[i]); err != nil {
			return err
		}
	}
	if err := a.releaseFiles(ctx, tx, contents); err != nil {
		return err
	}
	return a.addAllAliases(ctx, tx, contents)
}

// insertNew inserts the rows of the new blobs in one statement, in the order of their digests, so
// that concurrent batches do not deadlock. A blob that another transaction has inserted meanwhile
// violates a unique key.
func (a *batchAttach) insertNew(ctx context.Context, tx *sqldb.Tx, contents []NewContent) error {
	order := make([]int, 0, len(a.newBlobs))
	for _, i := range a.newBlobs {
		order = append(order, i)
	}
	slices.SortFunc(order, func(x, y int) int { return bytes.Compare(contents[x].Sum[:], contents[y].Sum[:]) })
	now := a.now()
	rows := make([][]any, len(order))
	for k, i := range order {
		n := contents[i]
		rows[k] = []any{n.ID, n.File, hex.EncodeToString(n.Sum[:]), n.Size, n.PartSize, n.CRC32, a.copies[i], now, now, n.Parts, string(digest.Blake3)}
	}
	err := tx.InsertRows(ctx, `INSERT INTO blobs (id, file, digest, size, part_size, crc32, refs, created_at, scrubbed_at, parts, algo)`, rows)
	if err != nil {
		return fmt.Errorf("insert %d blobs: %w", len(rows), err)
	}
	return nil
}

// refMany adds n references to a blob. It returns NotFound if the blob is gone.
func (c Content) refMany(ctx context.Context, tx *sqldb.Tx, id drive.BlobID, n int64) error {
	changed, err := tx.Exec(ctx, `UPDATE blobs SET refs = refs + ? WHERE id = ? AND refs > 0`, n, id)
	if err != nil {
		return fmt.Errorf("reference blob %s: %w", id, err)
	}
	if changed == 0 {
		return drive.Fail(drive.NotFound)
	}
	return nil
}

// releaseFiles inserts released rows for the files that are not needed. The files are new, so no
// such rows exist.
func (a *batchAttach) releaseFiles(ctx context.Context, tx *sqldb.Tx, contents []NewContent) error {
	if len(a.released) == 0 {
		return nil
	}
	now, owes := a.now(), drive.ByteSize(0)
	var released, owed [][]any
	for _, i := range a.released {
		n := contents[i]
		released = append(released, []any{n.File, n.Size, now})
		if !n.Account.IsZero() && n.Size > 0 {
			owed = append(owed, []any{n.File, n.Account, n.Size})
			owes += n.Size
		}
	}
	if err := tx.InsertRows(ctx, `INSERT INTO released (file, size, released_at)`, released); err != nil {
		return fmt.Errorf("release %d files: %w", len(released), err)
	}
	if err := tx.InsertRows(ctx, `INSERT INTO owed_files (file, account_id, size)`, owed); err != nil {
		return fmt.Errorf("owe %d files: %w", len(owed), err)
	}
	if owes == 0 {
		return nil
	}
	return a.addToDebtSum(ctx, tx, contents[a.released[0]].Account, owes)
}

// addAllAliases inserts the additional digests that the server has computed: those of new blobs in
// one statement, those of existing or repeated blobs one by one, because they may be stored
// already.
func (a *batchAttach) addAllAliases(ctx context.Context, tx *sqldb.Tx, contents []NewContent) error {
	var rows [][]any
	var others []int // contents of existing or repeated blobs, whose aliases may exist already
	for i, n := range contents {
		if a.copies[i] == 0 {
			others = append(others, i)
			continue
		}
		for algo, sum := range n.Aliases {
			if algo != digest.Blake3 {
				rows = append(rows, []any{string(algo), hex.EncodeToString(sum), n.ID})
			}
		}
	}
	if err := tx.InsertRows(ctx, `INSERT INTO aliases (algo, digest, blob_id)`, rows); err != nil {
		return fmt.Errorf("add %d aliases: %w", len(rows), err)
	}
	for _, i := range others {
		if err := a.addAliases(ctx, tx, a.ids[i], contents[i].Aliases); err != nil {
			return err
		}
	}
	return nil
}
