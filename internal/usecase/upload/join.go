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

// joins puts together what Concat has joined: it copies the bytes of partial uploads into their
// final one, and removes them. Which final has taken over which partial uploads, and has not
// removed them yet, is in the table upload_joins.
type joins struct {
	db       *sqldb.DB
	staging  blob.Staging
	unstore  func(ctx context.Context, id drive.UploadID) error // removes content of a seal that came to nothing
	restored bool                                               // what the rows say may be of before, and the bytes of after
	log      *slog.Logger
}

// join is the first step of the seal of a final upload: its parts are made of the bytes of its
// partial ones. Those of the first one are taken over as they lie, where its parts are the final's
// (blob.Staging.Adopt). All others have another place in the file, on which a chaining value
// depends: each byte of them is read and hashed once, and copied unless the staging can share it.
// What an earlier attempt has done is there. Then the partial ones are removed: the same bytes lie
// there twice for no longer than the copying takes.
//
//	dies after ...   and then
//	the taking over  the others are copied
//	some parts       the others are copied
//	all parts        they are made durable, the partial ones are removed
//	some removals    the rest is removed; nothing is read any more
//
// missing is what an upload that is not a final one lacks.
func (s *joins) join(ctx context.Context, row Row, run *sealing, missing error) error {
	all, err := s.of(ctx, row.ID)
	if err == nil && len(all) == 0 {
		return missing
	}
	if err != nil {
		return err
	}
	// A journal that was lost refuses every gen until one is fenced.
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
	if drive.IsKind(err, drive.NotFound) { // another instance has copied all and removed them, or they are lost
		if left, findErr := s.of(ctx, row.ID); findErr == nil && len(left) < len(all) {
			return nil
		}
		return lost(err)
	}
	if err != nil {
		return err
	}
	if _, err := s.staging.Fence(ctx, row.Ref(), row.Gen-1); err != nil { // durable
		return lost(err)
	}
	s.remove(ctx, row.ID)
	return nil
}

// adoptFirst takes over the bytes of the first partial upload, unless an earlier attempt has
// brought some, and returns what is staged.
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

// copyParts writes the parts of the final that are not there yet.
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

// copyPart writes what a part of the final lacks.
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
	if _, ok := errors.AsType[*blob.ThereError](err); ok { // another instance copies too, from the same bytes
		return nil
	}
	return err
}

// joined is a partial upload that a final one has taken over.
type joined struct{ ref blob.Ref }

// of returns what a final upload has taken over and not removed yet, in order.
func (s *joins) of(ctx context.Context, final drive.UploadID) ([]joined, error) {
	return s.find(ctx, `WHERE j.final_id = ? ORDER BY j.n`, final)
}

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

// open opens the bytes of a partial upload. Where parts cannot be read before they are sealed it is
// sealed for that.
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

// sources reads the partial uploads as one file. One at a time is open.
type sources struct {
	joins []joined
	open  func(joined) (blob.Object, error)
	off   drive.ByteSize // where Read goes on
	at    int            // which is open; -1: none
	start drive.ByteSize // where that one begins
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

// within says where the next n bytes lie; nil where they are of more than one partial upload.
func (s *sources) within(n drive.ByteSize) ([]blob.Source, error) {
	if err := s.turn(); err != nil {
		return nil, err
	}
	if s.off+n > s.start+s.joins[s.at].ref.Size {
		return nil, nil
	}
	return []blob.Source{{Object: s.file, Offset: s.off - s.start, Size: n}}, nil
}

// turn opens the partial upload that off is in.
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

func (s *sources) close() error {
	if s.at < 0 {
		return nil
	}
	s.at = -1
	return s.file.Close()
}

// remove removes what a final upload has taken over and needs no longer. What fails is done after
// the next start.
func (s *joins) remove(ctx context.Context, final drive.UploadID) {
	all, err := s.of(ctx, final)
	if err == nil {
		err = s.removeAll(ctx, all)
	}
	if err != nil {
		s.log.WarnContext(ctx, "remove partial uploads", "upload", final, "error", err)
	}
}

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

// removeEnded is remove for all finals that have ended.
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
