package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// piecesPrefix returns the key prefix of the pieces of an upload's tails.
func (b *Bucket) piecesPrefix(id drive.UploadID) string { return b.key(tailsDir) + id.String() + "/" }

// pieceKey returns the full key of a piece.
func (b *Bucket) pieceKey(id drive.UploadID, p storedPiece) string {
	return b.piecesPrefix(id) + p.Place
}

// pieceReader reads pieces one after the other. It returns Unavailable if a piece has another size
// than recorded.
type pieceReader struct {
	open func(storedPiece) (io.ReadCloser, error) // called by Read only
	left []storedPiece                            // pieces not read to their end
	body io.ReadCloser                            // of the first of left; nil: not open yet
	got  int64                                    // bytes read of that piece
}

// openPieces returns a reader of the concatenated pieces. It does no request; Read opens the
// objects one by one. The caller closes the reader, which ctx must outlive.
func (b *Bucket) openPieces(ctx context.Context, id drive.UploadID, pieces []storedPiece) *pieceReader {
	open := func(p storedPiece) (io.ReadCloser, error) {
		body, _, _, err := b.api.GetObject(ctx, b.name, b.pieceKey(id, p), minio.GetObjectOptions{})
		return body, err
	}
	return &pieceReader{open: open, left: pieces}
}

// Read returns the next bytes, opening one piece after the other. It fails with Unavailable if a
// piece has not its recorded size, and returns io.EOF after the last piece. The caller must call
// close.
func (r *pieceReader) Read(p []byte) (int, error) {
	for len(r.left) > 0 {
		if r.body == nil {
			body, err := r.open(r.left[0])
			if err != nil {
				return 0, fmt.Errorf("read a piece: %w", classify(err))
			}
			r.body, r.got = body, 0
		}
		n, err := r.body.Read(p)
		r.got += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return n, fmt.Errorf("read a piece: %w", classify(err))
		}
		if err != nil {
			if r.got != r.left[0].Size {
				return n, drive.Wrap(fmt.Errorf("piece %s has %d bytes, not %d", r.left[0].Place, r.got, r.left[0].Size), drive.Unavailable)
			}
			r.close()
			r.left = r.left[1:]
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

// close closes the object being read. It may be called more than once; a later Read begins that
// piece again.
func (r *pieceReader) close() {
	if r.body != nil {
		_ = r.body.Close()
		r.body = nil
	}
}

// dropPieces deletes pieces that no tail refers to any more, even if ctx has ended, for at most
// cleanupTime. It stops at the first failure and logs it; the remaining pieces are deleted with the
// upload.
func (b *Bucket) dropPieces(ctx context.Context, id drive.UploadID, pieces []storedPiece) {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	for _, p := range pieces {
		if err := b.remove(ctx, b.pieceKey(id, p)); err != nil {
			b.log.Warn("piece of a tail not removed; it is removed with the upload", "upload", id, "piece", p.Place, "error", err)
			return
		}
	}
}

// eachPiece calls fn for every object with that prefix. It stops at the first error of fn.
func (b *Bucket) eachPiece(ctx context.Context, prefix string, fn func(minio.ObjectInfo) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range b.api.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: pageSize}) {
		if o.Err != nil {
			return fmt.Errorf("list pieces of tails: %w", classify(o.Err))
		}
		if err := fn(o); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// removePieces deletes all pieces of an upload. It stops at the first error; missing pieces are no
// error.
func (b *Bucket) removePieces(ctx context.Context, id drive.UploadID) error {
	return b.eachPiece(ctx, b.piecesPrefix(id), func(o minio.ObjectInfo) error { return b.remove(ctx, o.Key) })
}

// quarantinePieces moves all pieces of an upload to the quarantine, under their own names. It stops
// at the first error and may be repeated.
func (b *Bucket) quarantinePieces(ctx context.Context, id drive.UploadID) error {
	return b.eachPiece(ctx, b.piecesPrefix(id), func(o minio.ObjectInfo) error {
		return b.quarantine(ctx, o.Key, strings.TrimPrefix(o.Key, b.prefix))
	})
}

// listTails calls fn, with the sum of their pieces, for uploads that have pieces but whose key is
// not in seen; it does not change seen. It calls fn after it has listed all pieces, and stops at
// the first error.
func (s *Staging) listTails(ctx context.Context, seen map[string]bool, fn func(blob.Entry) error) error {
	sizes, order := map[drive.UploadID]int64{}, []drive.UploadID{}
	err := s.b.eachPiece(ctx, s.b.key(tailsDir), func(o minio.ObjectInfo) error {
		id, err := drive.ParseID[drive.UploadID](path.Base(path.Dir(o.Key)))
		if err != nil || seen[s.b.contentKey(id)] {
			return nil //nolint:nilerr // not a key of a piece
		}
		if _, known := sizes[id]; !known {
			order = append(order, id)
		}
		sizes[id] += o.Size
		return nil
	})
	for _, id := range order {
		if err == nil {
			err = fn(blob.Entry{Path: stagedPlace(id), Name: id.String(), Size: drive.ByteSize(sizes[id])})
		}
	}
	return err
}

// listedPiece is a piece in a listing of the store.
type listedPiece struct {
	storedPiece
	n    int   // part number
	at   int64 // offset in the part
	time drive.Time
}

// parsePiece parses the key <part>-<offset>-<random>; false if it has another form or the piece is
// empty.
func parsePiece(o minio.ObjectInfo) (listedPiece, bool) {
	words := strings.Split(path.Base(o.Key), "-")
	if len(words) != 3 {
		return listedPiece{}, false
	}
	n, err1 := strconv.Atoi(words[0])
	at, err2 := strconv.ParseInt(words[1], 10, 64)
	f := listedPiece{storedPiece{Place: path.Base(o.Key), Size: o.Size}, n, at, drive.TimeOf(o.LastModified)}
	return f, err1 == nil && err2 == nil && n >= 0 && at >= 0 && o.Size > 0
}

// findTails rebuilds the tails of an upload from its pieces: per part, the longest chain of pieces
// that begins at offset 0. A client sent every piece for its offset, even if it is missing from the
// journal. Of several pieces at one offset, the newest is used if its chain is as long.
func (b *Bucket) findTails(ctx context.Context, ref blob.Ref) (map[int]tail, error) {
	byPart := map[int][]listedPiece{}
	err := b.eachPiece(ctx, b.piecesPrefix(ref.ID), func(o minio.ObjectInfo) error {
		if f, ok := parsePiece(o); ok && f.at+f.Size < int64(ref.PartSize) {
			byPart[f.n] = append(byPart[f.n], f)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tails := map[int]tail{}
	for n, all := range byPart {
		if t, ok := longestTail(n, all); ok {
			tails[n] = t
		}
	}
	return tails, nil
}

// longestTail returns the tail with the longest chain of pieces of part n; false if no piece begins
// at offset 0.
func longestTail(n int, all []listedPiece) (tail, bool) {
	// From the end, so that best has the chain that begins where a piece ends.
	slices.SortFunc(all, func(a, b listedPiece) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.time, b.time)) })
	type row struct {
		end  int64
		from listedPiece
	}
	best := map[int64]row{}
	for _, f := range all {
		end := f.at + f.Size
		if next, ok := best[end]; ok {
			end = next.end
		}
		if have, ok := best[f.at]; !ok || end >= have.end {
			best[f.at] = row{end, f}
		}
	}
	t := tail{Part: blob.Part{N: n, Unread: true}}
	for at := int64(0); ; {
		r, ok := best[at]
		if !ok {
			return t, at > 0
		}
		t.pieces = append(t.pieces, r.from.storedPiece)
		t.time = max(t.time, r.from.time)
		at += r.from.Size
		t.Size = drive.ByteSize(at)
	}
}

// tailChanges returns repairScript triples (field, old, new) that make the journal's tails agree
// with the store. A tail whose pieces all exist and form the longest chain stays as it is.
func tailChanges(j *journal, parts map[int]storedPart, tails map[int]tail) (triples []any) {
	for n, t := range tails {
		_, accepted := j.entries[n]
		if accepted || parts[n].size > 0 || j.tails[n].Size == t.Size && samePieces(j.tails[n].pieces, t.pieces) {
			continue
		}
		triples = append(triples, "p"+strconv.Itoa(n), j.rawTails[n], t.encode())
	}
	for n, raw := range j.rawTails {
		if _, ok := tails[n]; !ok || parts[n].size > 0 {
			triples = append(triples, "p"+strconv.Itoa(n), raw, "")
		}
	}
	return triples
}

// samePieces reports whether a and b are equal.
func samePieces(a, b []storedPiece) bool { return slices.Equal(a, b) }
