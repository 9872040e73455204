package upload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// A final upload that waits is one whose partial uploads were not all complete when it was asked for: a parked row that holds nothing, with
// the reason "waiting". What it will cost is charged at its partial uploads until it takes them over, all at once: see tryJoin. It does
// so when the last of them becomes complete, when somebody asks for it, and else by its park timer. It ends when one of them does.
//
//	dies ...                             and then
//	after the row, before the answer     the same list again finds it
//	after the last byte, before tryJoin  the park timer, HEAD, Complete or the same list again
//	after a partial one is gone          the same, and it ends
//
// Locks: those of partial uploads are taken before those of their final; see locks.go.

// ReasonWaiting is the reason of a parked row that is a final upload without all its bytes.
const ReasonWaiting = "waiting"

// joinRetry is how often a final that waits looks by itself: it has been told already, unless a process died.
const joinRetry = time.Minute

var errWaiting = errors.New("its partial uploads are not complete")

// isWaiting reports whether the upload is a final one that has not taken over its partial ones yet.
func (r Row) isWaiting() bool { return r.State == Parked && r.Reason == ReasonWaiting }

// public is the state as clients see it.
func (r Row) public() string {
	if r.isWaiting() {
		return ReasonWaiting
	}
	return r.State.Public()
}

// seen is what a look at partial uploads has found, which disturbs nobody who fills them.
type seen struct {
	full  bool           // all are complete
	size  drive.ByteSize // of them together; blob.UnknownSize: that of one is not declared
	final drive.UploadID // who has taken over the first one, or waits for it; zero: nobody
}

// lookAt looks at partial uploads. It does not look on when the first one belongs to a final.
func (s *Sessions) lookAt(ctx context.Context, who drive.Who, self drive.UploadID, partials []drive.UploadID) (seen, error) {
	all := seen{full: true}
	for i, id := range partials {
		row, err := findPartial(ctx, s.DB, who, id)
		if err != nil {
			return seen{}, err
		}
		if i == 0 {
			if all.final, err = s.finalOf(ctx, s.DB, row, self); err != nil || !all.final.IsZero() {
				return all, err
			}
		}
		if row.State != Active && row.State != Parked {
			return seen{}, row.ended()
		}
		if row.Size == blob.UnknownSize || all.size == blob.UnknownSize {
			all.full, all.size = false, blob.UnknownSize
			continue
		}
		all.size += row.Size
		if all.full {
			if all.full, err = s.isFull(ctx, row); err != nil {
				return seen{}, err
			}
		}
	}
	return all, nil
}

func findPartial(ctx context.Context, q sqldb.Querier, who drive.Who, id drive.UploadID) (Row, error) {
	row, err := findRow(ctx, q, id)
	if err == nil && (row.Account != who.Account || !row.isPartial()) {
		err = drive.Fail(drive.NotFound)
	}
	if drive.IsKind(err, drive.NotFound) {
		return Row{}, drive.Bad("partials", drive.Unknown, "sent", id)
	}
	return row, err
}

// finalOf returns the final that has taken over a partial upload or waits for it; zero: none, or self. One that has been given up
// does not count.
func (s *Sessions) finalOf(ctx context.Context, q sqldb.Querier, row Row, self drive.UploadID) (drive.UploadID, error) {
	h, err := findHead(ctx, q, row.ID)
	if err != nil || h.Final.IsZero() || h.Final == self && row.Reason != ReasonJoined {
		return drive.UploadID{}, err
	}
	if row.Reason == ReasonJoined {
		return h.Final, nil
	}
	final, err := findRow(ctx, q, h.Final)
	if drive.IsKind(err, drive.NotFound) || err == nil && !final.isWaiting() {
		return drive.UploadID{}, nil
	}
	return h.Final, err
}

// isFull reports whether all bytes of a partial upload have arrived.
func (s *Sessions) isFull(ctx context.Context, row Row) (bool, error) {
	staged, err := s.Staging.Load(ctx, row.Ref())
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	return row.prefix(staged.Parts, staged.Tails) == row.Size, err
}

// await begins a final upload that waits for its partial ones. It holds nothing, so it counts among the open uploads only.
func (s *Sessions) await(ctx context.Context, who drive.Who, b Begin, partials []drive.UploadID, size drive.ByteSize, once Once[View]) (View, error) {
	b.Size, b.PartSize, b.Kind = size, 0, Final
	row, err := s.newRow(who, b)
	if err != nil {
		return View{}, err
	}
	if row.Created, err = s.clock(ctx); err != nil {
		return View{}, err
	}
	row.Active, row.State, row.Reason = row.Created, Parked, ReasonWaiting
	if err := s.Staging.Create(ctx, row.Ref()); err != nil {
		s.unstage(ctx, row)
		return View{}, err
	}
	var view View
	err = s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		view, err = once.run(ctx, tx, func(ctx context.Context, tx *sqldb.Tx) (View, error) {
			return s.awaitTx(ctx, tx, who, b, row, partials)
		})
		return err
	})
	if err != nil {
		s.notBegun(ctx, row, err)
		return View{}, err
	}
	s.arm(ctx, view.row)
	return view, nil
}

func (s *Sessions) awaitTx(ctx context.Context, tx *sqldb.Tx, who drive.Who, b Begin, row Row, partials []drive.UploadID) (View, error) {
	if err := s.Ledger.Lock(ctx, tx, row.Account); err != nil {
		return View{}, err
	}
	if err := s.place(ctx, tx, b, &row); err != nil {
		return View{}, err
	}
	if err := s.Tree.CheckPlace(ctx, tx, row.Account, row.place()); err != nil {
		return View{}, err
	}
	_, open, err := s.findOpen(ctx, tx, row)
	if err != nil {
		return View{}, err
	}
	if open >= s.opt.MaxOpen {
		return View{}, drive.Fail(drive.TooManyOpen, "limit", s.opt.MaxOpen, "sent", open+1)
	}
	if err := s.hold(ctx, tx); err != nil {
		return View{}, err
	}
	if err := insertRow(ctx, tx, row); err != nil {
		return View{}, err
	}
	h := head{Kind: Final, Protocol: b.Protocol, Metadata: b.Metadata, Partials: partials}
	if err := insertHead(ctx, tx, row.ID, h); err != nil {
		return View{}, err
	}
	for _, id := range partials {
		if err := s.nameTx(ctx, tx, who, row.ID, id); err != nil {
			return View{}, err
		}
	}
	return s.view(ctx, tx, row)
}

// nameTx notes that a final waits for a partial upload, which no other may do then. The account is locked.
func (s *Sessions) nameTx(ctx context.Context, tx *sqldb.Tx, who drive.Who, final, id drive.UploadID) error {
	row, err := findPartial(ctx, tx, who, id)
	if err != nil {
		return err
	}
	if row.State != Active && row.State != Parked {
		return row.ended()
	}
	if err := s.unnamed(ctx, tx, row, final); err != nil {
		return err
	}
	return setFinal(ctx, tx, id, final)
}

// unnamed fails where another final waits for a partial upload.
func (s *Sessions) unnamed(ctx context.Context, tx *sqldb.Tx, row Row, final drive.UploadID) error {
	other, err := s.finalOf(ctx, tx, row, final)
	if err == nil && !other.IsZero() {
		err = drive.Bad("partials", drive.NotAllowed, "sent", row.ID)
	}
	return err
}

func setFinal(ctx context.Context, tx *sqldb.Tx, partial, final drive.UploadID) error {
	if _, err := tx.Exec(ctx, `UPDATE upload_heads SET final_id = ? WHERE upload_id = ?`, final, partial); err != nil {
		return fmt.Errorf("note the final of upload %s: %w", partial, err)
	}
	return nil
}

// filledUp lets the final that waits for a partial upload know that this one is complete. What fails its timer does.
func (s *Sessions) filledUp(ctx context.Context, partial drive.UploadID) {
	h, err := findHead(ctx, s.DB, partial)
	if err == nil && !h.Final.IsZero() {
		err = s.joinWaiting(ctx, h.Final)
	}
	if err != nil {
		s.opt.Log.WarnContext(ctx, "look whether a final upload is complete", "partial", partial, "error", err)
	}
}

// startJoin is joinWaiting for a timer.
func (s *Sessions) startJoin(final drive.UploadID) {
	s.work.Go(func() {
		if err := s.joinWaiting(s.stop, final); err != nil {
			s.opt.Log.Warn("look whether a final upload is complete", "upload", final, "error", err)
		}
	})
}

// joinWaiting puts a final upload together that waits, if all its partial ones are complete, and ends it if one of them has ended. It
// changes nothing otherwise.
func (s *Sessions) joinWaiting(ctx context.Context, final drive.UploadID) error {
	for range maxOvertaken {
		who, err := s.tryJoin(ctx, final)
		if e, ok := errors.AsType[partialError](err); ok {
			if err = s.closePartial(ctx, who, e); err == nil {
				continue
			}
		}
		if !errors.Is(err, errLost) {
			return err
		}
	}
	return drive.Fail(drive.InProgress, "retry_after", 1)
}

// tryJoin is one attempt of joinWaiting.
func (s *Sessions) tryJoin(ctx context.Context, id drive.UploadID) (who drive.Who, err error) {
	row, err := findRow(ctx, s.DB, id)
	if err != nil || !row.isWaiting() {
		return who, err
	}
	h, err := findHead(ctx, s.DB, id)
	if err != nil {
		return who, err
	}
	who = drive.Who{Account: row.Account, User: row.User}
	all, err := s.lookAt(ctx, who, id, h.Partials)
	switch {
	case drive.IsKind(err, drive.Gone, drive.BadRequest):
		return who, s.endWaiting(ctx, id, ReasonPartial)
	case err == nil && all.size > row.MaxSize(): // the length of one was not known when its part size was chosen
		return who, s.endWaiting(ctx, id, ReasonTooLarge)
	case err == nil && !all.final.IsZero(): // it has been put together since
		return who, errLost
	case err != nil || !all.full:
		return who, err
	}
	j := &joining{partials: h.Partials, lives: map[drive.UploadID]*live{}, rows: map[drive.UploadID]Row{}}
	release, err := s.takePartials(ctx, j)
	defer release()
	if err != nil {
		return who, err
	}
	return who, s.takeOverAll(ctx, who, id, j)
}

// takeOverAll is waiting ⇒ sealing. The caller has taken the partial uploads.
func (s *Sessions) takeOverAll(ctx context.Context, who drive.Who, id drive.UploadID, j *joining) error {
	l := s.table.enter(id)
	defer s.table.leave(l)
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	row, err := s.load(ctx, l)
	if err != nil || !row.isWaiting() {
		return err
	}
	_, found, err := s.readPartials(ctx, who, j)
	switch {
	case found:
		return errLost
	case drive.IsKind(err, drive.PartsMissing): // a power loss has taken some of what was there
		return nil
	case err != nil:
		return err
	}
	want, size := row, j.final.Size
	if want.Active, err = s.clock(ctx); err != nil {
		return err
	}
	want.State, want.Reason, want.Size, want.Reserved, want.Received = Sealing, "", size, size, size
	if err := s.reserveCopies(ctx, j, want); err != nil {
		return err
	}
	defer func() { s.release(j.final.Account, j.room) }()
	return s.commitTakeOver(ctx, l, row, want, j)
}

func (s *Sessions) commitTakeOver(ctx context.Context, l *live, was, want Row, j *joining) error {
	err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.Ledger.Lock(ctx, tx, was.Account); err != nil {
			return err
		}
		if err := s.hold(ctx, tx); err != nil {
			return err
		}
		next, err := change(ctx, tx, was, want)
		if err != nil {
			return err
		}
		j.final = next
		return s.joinAllTx(ctx, tx, j)
	})
	err = s.orLost(ctx, was, s.anyLost(ctx, j, err))
	if err != nil {
		s.forget(l)
		s.doubt(ctx, was, err)
		for _, l := range j.lives {
			s.forget(l)
		}
		return err
	}
	s.joined(ctx, j)
	s.arm(ctx, j.final)
	s.setRow(l, j.final)
	s.startJoining(l, j.final, j)
	return nil
}

// joinAllTx makes all partial uploads gone and moves what is charged from them to the final.
func (s *Sessions) joinAllTx(ctx context.Context, tx *sqldb.Tx, j *joining) error {
	move := quota.Move{Reserved: j.final.Reserved}
	ended := map[drive.UploadID]Row{}
	for n, id := range j.partials {
		row, err := s.joinTx(ctx, tx, j.final, n, j.rows[id])
		if err != nil {
			return err
		}
		move.Reserved -= j.rows[id].Reserved
		move.Unfinished -= j.rows[id].Held
		ended[id] = row
	}
	if err := s.Ledger.Apply(ctx, tx, j.final.Account, move); err != nil {
		return err
	}
	tx.AfterCommit(func() { j.rows = ended })
	return nil
}

// endWaiting ends a final upload that waits for what will not come.
func (s *Sessions) endWaiting(ctx context.Context, final drive.UploadID, reason string) error {
	if s.opt.Restored { // what the rows say may be of before
		return nil
	}
	_, err := inTurn(ctx, s, final, func(l *live) (none struct{}, err error) {
		row, err := s.load(ctx, l)
		if err != nil || !row.isWaiting() {
			return none, err
		}
		return none, s.reclaim(ctx, l, row, reason)
	})
	return err
}

// endFinalOf ends the final that waits for a partial upload, which is gone. What fails its timer does.
func (s *Sessions) endFinalOf(ctx context.Context, partial Row) {
	if !partial.isPartial() {
		return
	}
	h, err := findHead(ctx, s.DB, partial.ID)
	if err == nil && !h.Final.IsZero() {
		if err = s.endWaiting(ctx, h.Final, ReasonPartial); drive.IsKind(err, drive.NotFound) {
			err = nil
		}
	}
	if err != nil {
		s.opt.Log.WarnContext(ctx, "end a final upload that waits", "partial", partial.ID, "error", err)
	}
}

// sizeOf is the length of partial uploads together; blob.UnknownSize while that of one is not declared.
func (s *Sessions) sizeOf(ctx context.Context, partials []drive.UploadID) (size drive.ByteSize, err error) {
	for _, id := range partials {
		row, err := findRow(ctx, s.DB, id)
		if err != nil {
			return 0, err
		}
		if row.Size == blob.UnknownSize {
			return row.Size, nil
		}
		size += row.Size
	}
	return size, nil
}

// waitingPosition is Offset of a final upload that waits, as far as anybody knew: it looks.
func (s *Sessions) waitingPosition(ctx context.Context, who drive.Who, id drive.UploadID) (Position, error) {
	if err := s.joinWaiting(ctx, id); err != nil {
		return Position{}, err
	}
	row, err := findRow(ctx, s.DB, id)
	if err != nil {
		return Position{}, err
	}
	if !row.isWaiting() {
		return s.Offset(ctx, who, id)
	}
	h, err := findHead(ctx, s.DB, id)
	if err != nil {
		return Position{}, err
	}
	size, err := s.sizeOf(ctx, h.Partials)
	return Position{
		Size: size, MaxSize: row.MaxSize(), State: row.State, ExpiresAt: s.expires(row), Waiting: true,
		Kind: h.Kind, Protocol: h.Protocol, Metadata: h.Metadata, Partials: h.Partials,
	}, err
}

// awaited is what Complete does about a final upload that waits: errLost, so that it begins anew, if it does so no longer.
func (s *Sessions) awaited(ctx context.Context, id drive.UploadID) error {
	if err := s.joinWaiting(ctx, id); err != nil {
		return err
	}
	row, err := findRow(ctx, s.DB, id)
	switch {
	case err != nil:
		return err
	case row.isWaiting():
		return drive.Wrap(errWaiting, drive.PartsMissing, "upload", id)
	}
	return errLost
}
