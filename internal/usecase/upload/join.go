package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// merger copies the bytes of joined partial uploads into their final upload, and removes the
// originals. The table upload_joins lists the partial uploads that each final one has taken over
// and not removed yet.
type merger struct {
	db            *sqldb.DB
	staging       blob.Staging
	removeContent func(ctx context.Context, id drive.UploadID) error // removes the content left by a failed seal
	restored      bool                                               // a backup was restored: rows may be older than the bytes, so nothing is removed
	log           *slog.Logger
}

// join is the first step of the seal of a final upload: it builds the parts from the partial
// uploads. The first one is adopted in place if its parts match the final's (blob.Staging.Adopt).
// The others move to another offset, which changes their chaining values: each byte is read and
// hashed once, and copied unless the staging can share it. Results of earlier attempts are reused.
// Finally join removes the partial uploads, so the bytes are stored twice only during the copy.
//
//	crash after ...   a repeat ...
//	adoption          copies the others
//	some parts        copies the others
//	all parts         makes them durable, removes the partial uploads
//	some removals     removes the rest, reads nothing
//
// If row has no joined uploads it is no final upload, and join returns missing unchanged.
func (m *merger) join(ctx context.Context, row Row, run *sealRun, missing error) error {
	all, err := m.pending(ctx, row.ID)
	if err == nil && len(all) == 0 {
		return missing
	}
	if err != nil {
		return err
	}
	// A lost journal refuses every gen until one is fenced.
	staged, err := m.staging.Fence(ctx, row.Ref(), row.Gen-1)
	if err == nil {
		staged, err = m.adoptFirst(ctx, row, all[0].ref, staged)
	}
	if err == nil {
		err = run.room.Resize(ctx, row.Size-sum(staged))
	}
	if err != nil {
		return markBytesLost(err)
	}
	src := &partialReader{joins: all, open: func(j joinedPartial) (blob.Object, error) { return m.openPartial(ctx, j) }, at: -1}
	err = errors.Join(m.copyParts(ctx, row, staged, src, run), src.close())
	if drive.IsKind(err, drive.NotFound) { // another instance has copied and removed all, or the bytes are lost
		if left, findErr := m.pending(ctx, row.ID); findErr == nil && len(left) < len(all) {
			return nil
		}
		return markBytesLost(err)
	}
	if err != nil {
		return err
	}
	if _, err := m.staging.Fence(ctx, row.Ref(), row.Gen-1); err != nil { // makes the parts durable
		return markBytesLost(err)
	}
	m.removeJoined(ctx, row.ID)
	return nil
}

// adoptFirst adopts the bytes of the first partial upload, unless an earlier attempt has staged
// something. It returns the staging.
func (m *merger) adoptFirst(ctx context.Context, row Row, first blob.Ref, staged blob.Staged) (blob.Staged, error) {
	if len(staged.Parts) > 0 || len(staged.Tails) > 0 {
		return staged, nil
	}
	adopted, err := m.staging.Adopt(ctx, row.Ref(), first)
	if err != nil || !adopted {
		return staged, err
	}
	return m.staging.Load(ctx, row.Ref())
}

// copyParts writes each part of the final upload that staged lacks, and the rest of each tail, from
// src. It adds the size of each part to run.read and returns copied bytes to run.room. After an
// error it may be called again with a newly loaded staged; it returns Unavailable if ctx ends
// between parts.
func (m *merger) copyParts(ctx context.Context, row Row, staged blob.Staged, src *partialReader, run *sealRun) error {
	there, tails := map[int]bool{}, map[int]drive.ByteSize{}
	for _, p := range staged.Parts {
		there[p.N] = true
	}
	for _, p := range staged.Tails {
		tails[p.N] = p.Size
	}
	for n := range row.Parts() {
		size := row.partLength(n)
		if !there[n] {
			if err := ctx.Err(); err != nil {
				return drive.Wrap(err, drive.Unavailable)
			}
			if err := m.copyPart(ctx, row, blob.Extend{N: n, Gen: row.Gen, At: tails[n], Whole: size}, src); err != nil {
				return fmt.Errorf("put part %d of upload %s together: %w", n, row.ID, err)
			}
			run.room.Release(size - tails[n])
		}
		run.read.Add(int64(size))
	}
	return nil
}

// copyPart writes the bytes of part e.N from e.At to e.Whole, reading them from src. With e.At > 0
// it reads the existing tail first, to continue its checksums. If e.At is 0, a part that another
// instance has written meanwhile is no error.
func (m *merger) copyPart(ctx context.Context, row Row, e blob.Extend, src *partialReader) error {
	from := drive.ByteSize(e.N) * row.PartSize
	src.off = from + e.At
	opt := blob.BodyOptions{N: e.N, Offset: from, Size: e.Whole - e.At}
	var err error
	if opt.Sources, err = src.span(e.Whole - e.At); err != nil {
		return err
	}
	in := io.LimitReader(src, int64(opt.Size))
	if e.At > 0 {
		opt.Tail = blob.NewTail(from)
		if err := readTail(ctx, m.staging, row, e, opt.Tail); err != nil {
			return err
		}
		_, err = m.staging.Extend(ctx, row.Ref(), e, blob.NewBody(in, opt))
		return err
	}
	_, err = m.staging.Write(ctx, row.Ref(), blob.Write{N: e.N, Gen: row.Gen, Size: e.Whole}, blob.NewBody(in, opt))
	if _, ok := errors.AsType[*blob.PartExistsError](err); ok { // another instance copies the same bytes
		return nil
	}
	return err
}

// joinedPartial is a partial upload that a final one has taken over.
type joinedPartial struct{ ref blob.Ref }

// pending returns the partial uploads that a final upload has taken over and not removed yet, in
// order.
func (m *merger) pending(ctx context.Context, final drive.UploadID) ([]joinedPartial, error) {
	return m.query(ctx, `WHERE j.final_id = ? ORDER BY j.n`, final)
}

// query returns the rows of upload_joins (alias j) that match where, the end of the statement after
// the table: joins, WHERE, ORDER BY, LIMIT. No match returns an empty slice.
func (m *merger) query(ctx context.Context, where string, args ...any) ([]joinedPartial, error) {
	rows, err := m.db.Query(ctx, `SELECT j.partial_id, j.begun_at, j.part_size, j.size FROM upload_joins j `+where, args...)
	all, err := sqldb.Scan(rows, err, func(j *joinedPartial, scan func(...any) error) error {
		return scan(&j.ref.ID, &j.ref.Begun, &j.ref.PartSize, &j.ref.Size)
	})
	if err != nil {
		return nil, fmt.Errorf("list what was joined: %w", err)
	}
	return all, nil
}

// openPartial opens the bytes of a partial upload. If the staging cannot read parts before the
// seal, it seals the partial upload first.
func (m *merger) openPartial(ctx context.Context, j joinedPartial) (blob.Object, error) {
	if !readableParts(m.staging) {
		if err := m.staging.Seal(ctx, j.ref, j.ref.Size); err != nil {
			return nil, err
		}
	}
	o, err := m.staging.OpenStaged(ctx, j.ref)
	if err == nil && o.Size() < j.ref.Size {
		err = errors.Join(fmt.Errorf("partial upload %s has %d bytes, not %d", j.ref.ID, o.Size(), j.ref.Size), o.Close())
	}
	return o, err
}

// partialReader reads the partial uploads as one file. At most one is open.
type partialReader struct {
	joins []joinedPartial
	open  func(joinedPartial) (blob.Object, error)
	off   drive.ByteSize // next offset of Read
	at    int            // index of the open one; -1: none
	start drive.ByteSize // file offset at which it begins
	file  blob.Object
}

// Read returns the next bytes of the partial uploads in the order of joins, from off on, and
// advances off. It returns io.EOF only after the last, and the error of a partial upload that is
// shorter than its row says.
func (r *partialReader) Read(p []byte) (int, error) {
	if err := r.seek(); err != nil {
		return 0, err
	}
	end := r.start + r.joins[r.at].ref.Size
	n, err := r.file.ReadAt(p[:min(int64(len(p)), int64(end-r.off))], int64(r.off-r.start))
	r.off += drive.ByteSize(n)
	if n > 0 || errors.Is(err, io.EOF) && r.off == end {
		err = nil
	}
	return n, err
}

// span returns where the next n bytes are stored; nil if they cross from one partial upload to the
// next.
func (r *partialReader) span(n drive.ByteSize) ([]blob.Source, error) {
	if err := r.seek(); err != nil {
		return nil, err
	}
	if r.off+n > r.start+r.joins[r.at].ref.Size {
		return nil, nil
	}
	return []blob.Source{{Object: r.file, Offset: r.off - r.start, Size: n}}, nil
}

// seek opens the partial upload that contains off, unless it is open, and closes the previous one;
// it sets at and start. It returns io.EOF if off is at or after the end of the last.
func (r *partialReader) seek() error {
	start := drive.ByteSize(0)
	for i, j := range r.joins {
		end := start + j.ref.Size
		if r.off >= end {
			start = end
			continue
		}
		if r.at == i {
			return nil
		}
		err := r.close()
		if err == nil {
			r.file, err = r.open(j)
		}
		if err == nil {
			r.at, r.start = i, start
		}
		return err
	}
	return io.EOF
}

// close closes the partial upload that is open; if none is, it does nothing. It may be called
// repeatedly, and a later Read opens the upload again.
func (r *partialReader) close() error {
	if r.at < 0 {
		return nil
	}
	r.at = -1
	return r.file.Close()
}

// removeJoined removes the partial uploads that a final one no longer needs. An error is only
// logged; the next start retries.
func (m *merger) removeJoined(ctx context.Context, final drive.UploadID) {
	all, err := m.pending(ctx, final)
	if err == nil {
		err = m.removeAll(ctx, all)
	}
	if err != nil {
		m.log.WarnContext(ctx, "bytes of joined partial uploads could not be removed; the next start retries", "upload", final, "error", err)
	}
}

// removeAll deletes the contents and stagings of the given partial uploads, and then the row of
// each in upload_joins. It stops at the first error; what is left may be removed by another call.
func (m *merger) removeAll(ctx context.Context, all []joinedPartial) error {
	for _, j := range all {
		if err := m.removeContent(ctx, j.ref.ID); err != nil {
			return err
		}
		if err := m.staging.Remove(ctx, j.ref); err != nil {
			return err
		}
		err := m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `DELETE FROM upload_joins WHERE partial_id = ?`, j.ref.ID)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeEnded removes, page by page, the partial uploads whose final upload is done, gone or
// deleted. It does nothing while a restored backup is unchecked, and stops at the first error.
func (m *merger) removeEnded(ctx context.Context) error {
	if m.restored {
		return nil
	}
	for {
		all, err := m.query(ctx, `LEFT JOIN uploads u ON u.id = j.final_id
			WHERE u.id IS NULL OR u.state IN ('done', 'gone') LIMIT ?`, pageSize)
		if err == nil {
			err = m.removeAll(ctx, all)
		}
		if err != nil || len(all) < pageSize {
			return err
		}
	}
}
