package upload

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/usecase/upload/disk"
)

// MaxPartials is the most uploads that one Concat may name.
const MaxPartials = 1000

// Concat creates a file from partial uploads, in the given order. Their bytes move to the final
// upload and are charged once; the partial uploads become gone with reason "joined". A repeat with
// the same list returns the same final upload (View.Found). The view's state is sealing until the
// bytes are joined; Complete waits for that.
//
// b gives the target, as for Begin; its Size and PartSize are ignored.
//
// One transaction ends the partial uploads, creates the final one in state sealing, moves the charges,
// and records the pending copies in upload_joins. Copying is the first step of the seal, so a crash
// leaves either the previous state or a seal that a timer redoes. merger.removeJoined removes the
// partial bytes, at the latest after the next start.
//
// Errors: as Begin; BadRequest {field partials} (none, too many, duplicates, an upload that is not a
// partial one of the caller or belongs to another final upload), PartsMissing {upload} (incomplete),
// Gone (one of them is), InProgress.
func (s *Sessions) Concat(ctx context.Context, who drive.Who, b Begin, partials []drive.UploadID, once Once[View]) (View, error) {
	acting, b, err := s.gate.enter(ctx, who, b)
	if err == nil && acting.Account != who.Account { // the partial uploads are charged to the caller's own account
		err = drive.Bad("path", drive.NotAllowed, "allowed", []string{"a folder of your own drive"})
	}
	if err != nil {
		return View{}, err
	}
	return s.concats.concat(ctx, who, b, partials, once)
}

// concatenator creates final uploads from partial ones.
type concats struct {
	db       *sqldb.DB
	ledger   quota.Ledger
	tree     *tree.Tree
	staging  blob.Staging
	disk     *disk.Promises
	table    *table
	sched    *schedule
	clocks   clocks
	arrows   *arrows
	placer   *placer
	views    *views
	beginner *beginner
	sealer   *sealer
	readable bool // parts can be read before they are sealed

	closeTail func(ctx context.Context, who drive.Who, l *live, size drive.ByteSize) error // turns the tail that ends an upload of size bytes into its last part
}

// concat implements Sessions.Concat.
func (s *concats) concat(ctx context.Context, who drive.Who, b Begin, partials []drive.UploadID, once Once[View]) (v View, err error) {
	if err := checkPartials(partials); err != nil {
		return View{}, err
	}
	err = attempts(func() (out outcome, err error) {
		j := &joining{partials: partials, lives: map[drive.UploadID]*live{}, rows: map[drive.UploadID]Row{}}
		v, out, err = s.attempt(ctx, who, b, j, once)
		if err == nil && !j.tail.ID.IsZero() {
			return again, s.closePartial(ctx, who, j.tail.ID, j.tail.Size)
		}
		return out, err
	})
	return v, err
}

// checkPartials returns BadRequest if the list is empty, too long or has duplicates.
func checkPartials(partials []drive.UploadID) error {
	seen := map[drive.UploadID]bool{}
	for _, id := range partials {
		if seen[id] {
			return drive.Bad("partials", drive.NotTogether, "with", id)
		}
		seen[id] = true
	}
	switch n := len(partials); {
	case n == 0:
		return drive.Bad("partials", drive.Required)
	case n > MaxPartials:
		return drive.Bad("partials", drive.TooLong, "limit", MaxPartials, "sent", n)
	}
	return nil
}

// concatRun is the state of one Concat attempt.
type joining struct {
	partials []drive.UploadID
	lives    map[drive.UploadID]*live
	rows     map[drive.UploadID]Row
	final    Row
	head     head
	room     *disk.Room // for the copies; nil: the seal has taken it over
	found    View       // the existing final upload; Found is false if there is none
	tail     Row        // if its ID is set the attempt failed: the last part of this partial upload must be closed first
}

// attempt is one attempt of concat. If it sets j.tail nothing was changed.
func (s *concats) attempt(ctx context.Context, who drive.Who, b Begin, j *joining, once Once[View]) (View, outcome, error) {
	if err := s.arrived(ctx, who, j.partials); err != nil {
		return View{}, settled, err
	}
	release, err := s.takePartials(ctx, j)
	defer release()
	if err != nil {
		return View{}, settled, err
	}
	out, err := s.readPartials(ctx, who, j)
	if err != nil || out == again || j.found.Found || !j.tail.ID.IsZero() {
		return j.found, out, err
	}
	if err := s.newFinal(ctx, who, b, j); err != nil {
		return View{}, settled, err
	}
	if err := s.reserveCopies(ctx, j); err != nil {
		return View{}, settled, err
	}
	defer func() { j.room.Close() }()
	if err := s.staging.Create(ctx, j.final.Ref()); err != nil {
		s.beginner.unstage(ctx, j.final)
		return View{}, settled, err
	}
	return s.commitConcat(ctx, b, j, once)
}

// findFinal returns the final upload that was created from exactly this list; BadRequest if the
// partial uploads were joined otherwise.
func (s *concats) findFinal(ctx context.Context, partials []drive.UploadID) (View, error) {
	h, err := findHead(ctx, s.db, partials[0])
	if err != nil {
		return View{}, err
	}
	of, err := findHead(ctx, s.db, h.Final)
	if err != nil {
		return View{}, err
	}
	if !slices.Equal(of.Partials, partials) {
		return View{}, drive.Bad("partials", drive.NotAllowed, "sent", partials[0])
	}
	row, err := findRow(ctx, s.db, h.Final)
	if err != nil {
		return View{}, err
	}
	v, err := s.views.of(ctx, s.db, row)
	v.Found = true
	return v, err
}

// newFinal builds the row of the final upload. Its state is sealing from the start, because it
// receives no parts.
func (s *concats) newFinal(ctx context.Context, who drive.Who, b Begin, j *joining) error {
	b.Size, b.PartSize, b.Kind = j.final.Size, 0, Final
	row, err := s.beginner.newRow(who, b)
	if err != nil {
		return err
	}
	if row.Created, err = s.clocks.ofRows(ctx); err != nil {
		return err
	}
	row.Active, row.State, row.Reserved, row.Received = row.Created, Sealing, row.Size, row.Size
	j.final = row
	j.head = head{Kind: Final, Protocol: b.Protocol, Metadata: b.Metadata, Partials: j.partials}
	return nil
}

// commitConcat runs the transaction of a Concat and starts the seal of the final upload.
func (s *concats) commitConcat(ctx context.Context, b Begin, j *joining, once Once[View]) (view View, out outcome, err error) {
	l := s.table.enter(j.final.ID)
	defer s.table.leave(l)
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		view, err = once.run(ctx, tx, func(ctx context.Context, tx *sqldb.Tx) (View, error) { return s.concatTx(ctx, tx, b, j) })
		return err
	})
	if out, err = s.judge(ctx, j, err); err != nil || out == again {
		for _, l := range j.lives {
			l.forget()
		}
		s.beginner.notBegun(ctx, j.final, err)
		return View{}, out, err
	}
	s.joined(ctx, j)
	s.sched.arm(ctx, view.row)
	if err := l.takeTurn(context.WithoutCancel(ctx)); err != nil {
		return View{}, settled, err
	}
	defer l.giveTurn()
	if l.adoptNew(view.row) { // otherwise a request has found the upload and changed it
		s.sealer.startSealIn(l, view.row, j.room) // takes over the room for the copies
		j.room = nil
	}
	return view, settled, nil
}

// reserveCopies promises disk space for the copies until the partial uploads are removed. The first
// partial upload needs none if it can be adopted.
func (s *concats) reserveCopies(ctx context.Context, j *joining) error {
	room := j.final.Size
	if first := j.rows[j.partials[0]]; first.PartSize == j.final.PartSize && s.readable {
		room -= first.Size
	}
	j.room = s.disk.Room(j.final.Account)
	return j.room.Hold(ctx, room)
}

// noteJoined updates the cache and timers of the joined partial uploads.
func (s *concats) joined(ctx context.Context, j *joining) {
	for id, l := range j.lives {
		l.setRow(j.rows[id])
		s.sched.disarm(ctx, j.rows[id])
	}
}

// classify is transitions.classify for all partial uploads.
func (s *concats) judge(ctx context.Context, j *joining, err error) (out outcome, _ error) {
	for _, row := range j.rows {
		if out, err = s.arrows.judge(ctx, row, err); err == nil {
			break
		}
	}
	return out, err
}

// concatTx is the transaction of Concat.
func (s *concats) concatTx(ctx context.Context, tx *sqldb.Tx, b Begin, j *joining) (View, error) {
	final := j.final
	if err := s.ledger.Lock(ctx, tx, final.Account); err != nil {
		return View{}, err
	}
	if err := s.beginner.place(ctx, tx, b, &final); err != nil {
		return View{}, err
	}
	if err := s.tree.CheckPlace(ctx, tx, final.Account, final.place()); err != nil {
		return View{}, err
	}
	if err := s.arrows.hold(ctx, tx); err != nil {
		return View{}, err
	}
	if err := insertRow(ctx, tx, final); err != nil {
		return View{}, err
	}
	if err := insertHead(ctx, tx, final.ID, j.head); err != nil {
		return View{}, err
	}
	if err := s.placer.emit(ctx, tx, stream.UploadBegun, final); err != nil {
		return View{}, err
	}
	j.final = final
	if err := s.joinAllTx(ctx, tx, j); err != nil {
		return View{}, err
	}
	return s.views.of(ctx, tx, final)
}

// joinAllTx ends all partial uploads and moves their charges to the final upload.
func (s *concats) joinAllTx(ctx context.Context, tx *sqldb.Tx, j *joining) error {
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
	if err := s.ledger.Apply(ctx, tx, j.final.Account, move); err != nil {
		return err
	}
	tx.AfterCommit(func() { j.rows = ended })
	return nil
}

// joinTx is the transition active or parked ⇒ gone of the n-th partial upload, whose bytes then
// belong to the final upload.
func (s *concats) joinTx(ctx context.Context, tx *sqldb.Tx, final Row, n int, was Row) (Row, error) {
	want := was
	want.State, want.Reason, want.Reserved, want.Held, want.Ended = Gone, ReasonJoined, 0, 0, s.clocks.now()
	row, err := change(ctx, tx, was, want)
	if err != nil {
		return Row{}, err
	}
	if _, err := tx.Exec(ctx, `UPDATE upload_heads SET final_id = ? WHERE upload_id = ?`, final.ID, was.ID); err != nil {
		return Row{}, fmt.Errorf("note the final of upload %s: %w", was.ID, err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO upload_joins (partial_id, final_id, n, begun_at, part_size, size) VALUES (?,?,?,?,?,?)`,
		was.ID, final.ID, n, was.Created, was.PartSize, was.Size)
	if err != nil {
		return Row{}, fmt.Errorf("note that upload %s is joined: %w", was.ID, err)
	}
	return row, s.placer.emit(ctx, tx, stream.UploadGone, row)
}
