package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// merger copies the bytes of joined partial uploads into their final upload, and removes the
// originals. The table upload_joins lists the partial uploads that each final one has taken over
// and not removed yet.
type joins struct {
	db       *sqldb.DB
	staging  blob.Staging
	unstore  func(ctx context.Context, id drive.UploadID) error // removes the content left by a failed seal
	restored bool                                               // a backup was restored: rows may be older than the bytes, so nothing is removed
	log      *slog.Logger
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
func (s *joins) join(ctx context.Context, row Row, run *sealing, missing error) error {
	all, err := s.of(ctx, row.ID)
	if err == nil && len(all) == 0 {
		return missing
	}
	if err != nil {
		return err
	}
	// A lost journal refuses every gen until one is fenced.
	staged, err := s.staging.Fence(ctx, row.Ref(), row.Gen-1)
	if err == nil {
		staged, err = s.adoptFirst(ctx, row, all[0].ref, staged)
	}
	if err == nil {
		err = run.room.Hold(ctx, row.Size-sum(staged))
	}
	if err != nil {
		return lost(err)
	}
	src := &sources{joins: all, open: func(j joined) (blob.Object, error) { return s.open(ctx, j) }, at: -1}
	err = errors.Join(s.copyParts(ctx, row, staged, src, run), src.close())
	if drive.IsKind(err, drive.NotFound) { // another instance has copied and removed all, or the bytes are lost
		if left, findErr := s.of(ctx, row.ID); findErr == nil && len(left) < len(all) {
			return nil
		}
		return lost(err)
	}
	if err != nil {
		return err
	}
	if _, err := s.staging.Fence(ctx, row.Ref(), row.Gen-1); err != nil { // makes the parts durable
		return lost(err)
	}
	s.remove(ctx, row.ID)
	return nil
}

// adoptFirst adopts the bytes of the first partial upload, unless an earlier attempt has staged
// something. It returns the staging.
func (s *joins) adoptFirst(ctx context.Context, row Row, first blob.Ref, staged blob.Staged) (blob.Staged, error) {
	if len(staged.Parts) > 0 || len(staged.Tails) > 0 {
		return staged, nil
	}
	adopted, err := s.staging.Adopt(ctx, row.Ref(), first)
	if err != nil || !adopted {
		return staged, err
	}
	return s.staging.Load(ctx, row.Ref())
}

// copyParts writes the missing parts of the final upload.
func (s *joins) copyParts(ctx context.Context, row Row, staged blob.Staged, src *sources, run *sealing) error {
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
			if err := s.copyPart(ctx, row, blob.Extend{N: n, Gen: row.Gen, At: tails[n], Whole: size}, src); err != nil {
				return fmt.Errorf("put part %d of upload %s together: %w", n, row.ID, err)
			}
			run.room.Use(size - tails[n])
		}
		run.read.Add(int64(size))
	}
	return nil
}

// copyPart writes the missing bytes of one part of the final upload.
func (s *joins) copyPart(ctx context.Context, row Row, e blob.Extend, src *sources) error {
	from := drive.ByteSize(e.N) * row.PartSize
	src.off = from + e.At
	opt := blob.BodyOptions{N: e.N, Offset: from, Size: e.Whole - e.At}
	var err error
	if opt.Sources, err = src.within(e.Whole - e.At); err != nil {
		return err
	}
	in := io.LimitReader(src, int64(opt.Size))
	if e.At > 0 {
		opt.Tail = blob.NewTail(from)
		if err := readTail(ctx, s.staging, row, e, opt.Tail); err != nil {
			return err
		}
		_, err = s.staging.Extend(ctx, row.Ref(), e, blob.NewBody(in, opt))
		return err
	}
	_, err = s.staging.Write(ctx, row.Ref(), blob.Write{N: e.N, Gen: row.Gen, Size: e.Whole}, blob.NewBody(in, opt))
	if _, ok := errors.AsType[*blob.ThereError](err); ok { // another instance copies the same bytes
		return nil
	}
	return err
}

// joinedPartial is a partial upload that a final one has taken over.
type joined struct{ ref blob.Ref }

// pending returns the partial uploads that a final upload has taken over and not removed yet, in
// order.
func (s *joins) of(ctx context.Context, final drive.UploadID) ([]joined, error) {
	return s.find(ctx, `WHERE j.final_id = ? ORDER BY j.n`, final)
}

// query returns the rows of upload_joins that match the SQL suffix where.
func (s *joins) find(ctx context.Context, where string, args ...any) ([]joined, error) {
	rows, err := s.db.Query(ctx, `SELECT j.partial_id, j.begun_at, j.part_size, j.size FROM upload_joins j `+where, args...)
	all, err := sqldb.Scan(rows, err, func(j *joined, scan func(...any) error) error {
		return scan(&j.ref.ID, &j.ref.Begun, &j.ref.PartSize, &j.ref.Size)
	})
	if err != nil {
		return nil, fmt.Errorf("list what was joined: %w", err)
	}
	return all, nil
}

// openPartial opens the bytes of a partial upload. If the staging cannot read parts before the
// seal, it seals the partial upload first.
func (s *joins) open(ctx context.Context, j joined) (blob.Object, error) {
	if !readableParts(s.staging) {
		if err := s.staging.Seal(ctx, j.ref, j.ref.Size); err != nil {
			return nil, err
		}
	}
	o, err := s.staging.OpenStaged(ctx, j.ref)
	if err == nil && o.Size() < j.ref.Size {
		err = errors.Join(fmt.Errorf("partial upload %s has %d bytes, not %d", j.ref.ID, o.Size(), j.ref.Size), o.Close())
	}
	return o, err
}

// partialReader reads the partial uploads as one file. At most one is open.
type sources struct {
	joins []joined
	open  func(joined) (blob.Object, error)
	off   drive.ByteSize // next offset of Read
	at    int            // index of the open one; -1: none
	start drive.ByteSize // file offset at which it begins
	file  blob.Object
}

func (s *sources) Read(p []byte) (int, error) {
	if err := s.turn(); err != nil {
		return 0, err
	}
	end := s.start + s.joins[s.at].ref.Size
	n, err := s.file.ReadAt(p[:min(int64(len(p)), int64(end-s.off))], int64(s.off-s.start))
	s.off += drive.ByteSize(n)
	if n > 0 || errors.Is(err, io.EOF) && s.off == end {
		err = nil
	}
	return n, err
}

// span returns where the next n bytes are stored; nil if they cross from one partial upload to the
// next.
func (s *sources) within(n drive.ByteSize) ([]blob.Source, error) {
	if err := s.turn(); err != nil {
		return nil, err
	}
	if s.off+n > s.start+s.joins[s.at].ref.Size {
		return nil, nil
	}
	return []blob.Source{{Object: s.file, Offset: s.off - s.start, Size: n}}, nil
}

// seek opens the partial upload that contains off; io.EOF after the last.
func (s *sources) turn() error {
	start := drive.ByteSize(0)
	for i, j := range s.joins {
		end := start + j.ref.Size
		if s.off >= end {
			start = end
			continue
		}
		if s.at == i {
			return nil
		}
		err := s.close()
		if err == nil {
			s.file, err = s.open(j)
		}
		if err == nil {
			s.at, s.start = i, start
		}
		return err
	}
	return io.EOF
}

// close closes the open partial upload, if any.
func (s *sources) close() error {
	if s.at < 0 {
		return nil
	}
	s.at = -1
	return s.file.Close()
}

// removeJoined removes the partial uploads that a final one no longer needs. An error is only
// logged; the next start retries.
func (s *joins) remove(ctx context.Context, final drive.UploadID) {
	all, err := s.of(ctx, final)
	if err == nil {
		err = s.removeAll(ctx, all)
	}
	if err != nil {
		s.log.WarnContext(ctx, "bytes of joined partial uploads could not be removed; the next start retries", "upload", final, "error", err)
	}
}

// removeAll removes the given partial uploads and their rows in upload_joins.
func (s *joins) removeAll(ctx context.Context, all []joined) error {
	for _, j := range all {
		if err := s.unstore(ctx, j.ref.ID); err != nil {
			return err
		}
		if err := s.staging.Remove(ctx, j.ref); err != nil {
			return err
		}
		err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `DELETE FROM upload_joins WHERE partial_id = ?`, j.ref.ID)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeEnded removes the partial uploads of all final uploads that have ended.
func (s *joins) removeEnded(ctx context.Context) error {
	if s.restored {
		return nil
	}
	for {
		all, err := s.find(ctx, `LEFT JOIN uploads u ON u.id = j.final_id
			WHERE u.id IS NULL OR u.state IN ('done', 'gone') LIMIT ?`, pageSize)
		if err == nil {
			err = s.removeAll(ctx, all)
		}
		if err != nil || len(all) < pageSize {
			return err
		}
	}
}
