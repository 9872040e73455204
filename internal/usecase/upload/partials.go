package upload

import (
	"bytes"
	"context"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// arrived fails where bytes of a partial upload have not come. It only reads, so it disturbs nobody
// who still fills one.
func (s *concats) arrived(ctx context.Context, who drive.Who, partials []drive.UploadID) error {
	for _, id := range partials {
		row, err := findRow(ctx, s.db, id)
		if err = asPartial(who, id, row, err); err != nil {
			return err
		}
		if row.State != Active && row.State != Parked {
			return nil // readPartials says what has become of it
		}
		staged, err := s.staging.Load(ctx, row.Ref())
		switch {
		case err != nil && !drive.IsKind(err, drive.NotFound):
			return err
		case row.Size == blob.UnknownSize || row.prefix(staged.Parts, staged.Tails) != row.Size:
			return drive.Fail(drive.PartsMissing, "upload", id)
		}
	}
	return nil
}

// asPartial is the error of a request that names row, which was found with err, as a partial upload
// of its own.
func asPartial(who drive.Who, id drive.UploadID, row Row, err error) error {
	if err == nil && (row.Account != who.Account || !row.isPartial()) || drive.IsKind(err, drive.NotFound) {
		return drive.Bad("partials", drive.Unknown, "sent", id)
	}
	return err
}

// takePartials keeps everybody else in this process away from the partial uploads: in the order of
// their ids, so that two of these cannot wait for each other.
func (s *concats) takePartials(ctx context.Context, j *joining) (release func(), err error) {
	var undo []func()
	release = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	inOrder := slices.SortedFunc(slices.Values(j.partials), func(a, b drive.UploadID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range inOrder {
		l := s.table.enter(id)
		undo = append(undo, func() { s.table.leave(l) })
		j.lives[id] = l
		end, err := l.takeOver(ctx, func() {})
		if err != nil {
			return release, err
		}
		undo = append(undo, end)
		if err := l.takeTurn(ctx); err != nil {
			return release, err
		}
		undo = append(undo, l.giveTurn)
		l.pause()
		undo = append(undo, l.open)
		if err := l.drain(ctx, true); err != nil {
			return release, err
		}
	}
	return release, nil
}

// readPartials looks whether the partial uploads may be joined, and closes them; or finds the final
// that they were joined to, or one whose last part is a tail still.
func (s *concats) readPartials(ctx context.Context, who drive.Who, j *joining) (out outcome, err error) {
	for i, id := range j.partials {
		row, err := s.table.load(ctx, j.lives[id])
		if err = asPartial(who, id, row, err); err != nil {
			return settled, err
		}
		if row.State == Gone && row.Reason == ReasonJoined && i == 0 {
			j.found, err = s.findFinal(ctx, j.partials)
			return settled, err
		}
		if row.State != Active && row.State != Parked {
			return settled, row.ended()
		}
		staged, out, err := s.closed(ctx, j.lives[id], row)
		if err != nil || out == again {
			return out, err
		}
		if row.endsInTail(staged) {
			j.tail = row
			return settled, nil
		}
		if err := row.checkParts(staged.Parts); err != nil {
			return settled, err
		}
		j.rows[id] = row
		j.final.Size += row.Size
	}
	return settled, nil
}

// closePartial makes the last part of a partial upload of its tail.
func (s *concats) closePartial(ctx context.Context, who drive.Who, id drive.UploadID, size drive.ByteSize) error {
	l := s.table.enter(id)
	defer s.table.leave(l)
	return s.closeTail(ctx, who, l, size)
}

// closed returns what is there of a partial upload, durably; nobody can change it any more under
// its gen.
func (s *concats) closed(ctx context.Context, l *live, row Row) (blob.Staged, outcome, error) {
	if row.Size == blob.UnknownSize {
		return blob.Staged{}, settled, drive.Fail(drive.PartsMissing, "upload", row.ID)
	}
	l.refuse(row.Gen)
	staged, err := s.staging.Fence(ctx, row.Ref(), row.Gen)
	if err == nil && staged.Suspect {
		if staged, err = s.staging.Verify(ctx, row.Ref(), row.Gen); err == nil {
			l.forget()
		}
	}
	if drive.IsKind(err, drive.NotFound) {
		out, err := s.arrows.missing(ctx, l, row, err)
		return blob.Staged{}, out, err
	}
	return staged, settled, err
}
