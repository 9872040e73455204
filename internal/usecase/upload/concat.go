package upload

import (
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// MaxPartials is the most uploads that one Concat may name.
const MaxPartials = 1000

// Concat creates a file from partial uploads, in the given order. Their bytes move to the final
// upload and are charged once; the partial uploads become gone with reason "joined". A repeat with
// the same list returns the same final upload (View.Found). The view's state is sealing until the
// bytes are joined; Complete waits for that.
//
// b names the target; its Size and PartSize are ignored.
//
// One transaction ends the partial uploads, creates the final one in state sealing, moves the
// charges, and records the pending copies in upload_joins. Copying is the first step of the seal,
// so a crash leaves either the previous state or a seal that a timer redoes. merger.removeJoined
// removes the partial bytes, at the latest after the next start.
//
// Errors: NotFound (no such parent), NameTaken, BadName, TooLarge, Quota, DiskFull, TooManyOpen;
// BadRequest {field partials} (none, too many, duplicates, an upload that is not a partial one of
// the caller or belongs to another final upload), PartsMissing {upload} (incomplete), Gone (one of
// them is), InProgress.
func (s *Sessions) Concat(ctx context.Context, who drive.Who, b Begin, partials []drive.UploadID, once Once[View]) (View, error) {
	acting, b, err := s.auth.authorizeBegin(ctx, who, b)
	if err == nil && acting.Account != who.Account { // the partial uploads are charged to the caller's own account
		err = drive.BadField("path", drive.NotAllowed, "allowed", []string{"a folder of your own drive"})
	}
	if err != nil {
		return View{}, err
	}
	return s.concatenator.concat(ctx, who, b, partials, once)
}

// concatenator creates final uploads from partial ones.
type concatenator struct {
	db          *sqldb.DB
	ledger      quota.Ledger
	tree        *tree.Tree
	staging     blob.Staging
	disk        *disk.Reservations
	table       *liveTable
	sched       *schedule
	clocks      clocks
	transitions *transitions
	placer      *placer
	views       *views
	creator     *creator
	sealer      *sealer
	readable    bool // parts can be read before they are sealed

	closeTail func(ctx context.Context, who drive.Who, l *liveUpload, size drive.ByteSize) error // turns the tail that ends an upload of size bytes into its last part
}

// concat joins the partial uploads into a final one and returns its view; a partial upload that
// ends in a tail is closed first. It returns errBusy after maxAttempts attempts that lost against
// concurrent changes, BadRequest {field partials} for an unusable list, PartsMissing {upload} for
// an incomplete partial upload, and the errors of the target: NotFound, NameTaken, Quota.
func (c *concatenator) concat(ctx context.Context, who drive.Who, b Begin, partials []drive.UploadID, once Once[View]) (v View, err error) {
	if err := checkPartials(partials); err != nil {
		return View{}, err
	}
	err = withRetry(func() (out outcome, err error) {
		j := &concatRun{partials: partials, lives: map[drive.UploadID]*liveUpload{}, rows: map[drive.UploadID]Row{}}
		v, out, err = c.attempt(ctx, who, b, j, once)
		if err == nil && !j.tail.ID.IsZero() {
			return retry, c.closePartialTail(ctx, who, j.tail.ID, j.tail.Size)
		}
		return out, err
	})
	return v, err
}

// checkPartials returns BadRequest if the list is empty, longer than MaxPartials or has duplicates.
func checkPartials(partials []drive.UploadID) error {
	seen := map[drive.UploadID]bool{}
	for _, id := range partials {
		if seen[id] {
			return drive.BadField("partials", drive.NotTogether, "with", id)
		}
		seen[id] = true
	}
	switch n := len(partials); {
	case n == 0:
		return drive.BadField("partials", drive.Required)
	case n > MaxPartials:
		return drive.BadField("partials", drive.TooLong, "limit", MaxPartials, "sent", n)
	}
	return nil
}

// concatRun is the state of one attempt of Concat; a retry starts with a new one.
type concatRun struct {
	partials []drive.UploadID               // in the order of the request
	lives    map[drive.UploadID]*liveUpload // locked partial uploads
	rows     map[drive.UploadID]Row         // rows of the partial uploads; after the commit their ended rows
	final    Row
	head     head
	room     *disk.Reservation // for the copies; nil: the seal has taken it over
	found    View              // the existing final upload; Found is false if there is none
	tail     Row               // if its ID is set the attempt failed: the last part of this partial upload must be closed first
}

// attempt is one attempt of concat. It returns the existing final upload if there is one, and retry
// if a concurrent change won. If it sets j.tail nothing was changed: the caller closes that tail
// and tries again.
func (c *concatenator) attempt(ctx context.Context, who drive.Who, b Begin, j *concatRun, once Once[View]) (View, outcome, error) {
	if err := c.checkArrived(ctx, who, j.partials); err != nil {
		return View{}, finished, err
	}
	release, err := c.lockPartials(ctx, j)
	defer release()
	if err != nil {
		return View{}, finished, err
	}
	out, err := c.readPartials(ctx, who, j)
	if err != nil || out == retry || j.found.Found || !j.tail.ID.IsZero() {
		return j.found, out, err
	}
	if err := c.newFinal(ctx, who, b, j); err != nil {
		return View{}, finished, err
	}
	if err := c.reserveCopies(ctx, j); err != nil {
		return View{}, finished, err
	}
	defer func() { j.room.Close() }()
	if err := c.staging.Create(ctx, j.final.Ref()); err != nil {
		c.creator.unstage(ctx, j.final)
		return View{}, finished, err
	}
	return c.commitConcat(ctx, b, j, once)
}

// findFinal returns the final upload that was created from exactly this list; BadRequest if the
// partial uploads were joined otherwise.
func (c *concatenator) findFinal(ctx context.Context, partials []drive.UploadID) (View, error) {
	h, err := findHead(ctx, c.db, partials[0])
	if err != nil {
		return View{}, err
	}
	of, err := findHead(ctx, c.db, h.Final)
	if err != nil {
		return View{}, err
	}
	if !slices.Equal(of.Partials, partials) {
		return View{}, drive.BadField("partials", drive.NotAllowed, "sent", partials[0])
	}
	row, err := findRow(ctx, c.db, h.Final)
	if err != nil {
		return View{}, err
	}
	v, err := c.views.of(ctx, c.db, row)
	v.Found = true
	return v, err
}

// newFinal builds the row of the final upload. Its state is sealing from the start, because it
// receives no parts.
func (c *concatenator) newFinal(ctx context.Context, who drive.Who, b Begin, j *concatRun) error {
	b.Size, b.PartSize, b.Kind = j.final.Size, 0, Final
	row, err := c.creator.newRow(who, b)
	if err != nil {
		return err
	}
	if row.Created, err = c.clocks.rowTime(ctx); err != nil {
		return err
	}
	row.Active, row.State, row.Reserved, row.Received = row.Created, Sealing, row.Size, row.Size
	j.final = row
	j.head = head{Kind: Final, Protocol: b.Protocol, Metadata: b.Metadata, Partials: j.partials}
	return nil
}

// commitConcat runs the transaction of a Concat, updates caches and timers, and starts the seal of
// the final upload. It returns retry if a partial upload was changed concurrently; nothing is
// committed then.
func (c *concatenator) commitConcat(ctx context.Context, b Begin, j *concatRun, once Once[View]) (view View, out outcome, err error) {
	l := c.table.acquire(j.final.ID)
	defer c.table.release(l)
	err = c.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		view, err = once.run(ctx, tx, func(ctx context.Context, tx *sqldb.Tx) (View, error) { return c.concatTx(ctx, tx, b, j) })
		return err
	})
	if out, err = c.classify(ctx, j, err); err != nil || out == retry {
		for _, l := range j.lives {
			l.invalidate()
		}
		c.creator.cleanUpFailed(ctx, j.final, err)
		return View{}, out, err
	}
	c.noteJoined(ctx, j)
	c.sched.arm(ctx, view.row)
	if err := l.lockState(context.WithoutCancel(ctx)); err != nil {
		return View{}, finished, err
	}
	defer l.unlockState()
	if l.setNew(view.row) { // otherwise a request has found the upload and changed it
		c.sealer.startSealIn(l, view.row, j.room) // takes over the room for the copies
		j.room = nil
	}
	return view, finished, nil
}

// reserveCopies promises disk space for the copies until the partial uploads are removed. The first
// partial upload needs none if it can be adopted.
func (c *concatenator) reserveCopies(ctx context.Context, j *concatRun) error {
	room := j.final.Size
	if first := j.rows[j.partials[0]]; first.PartSize == j.final.PartSize && c.readable {
		room -= first.Size
	}
	j.room = c.disk.NewReservation(j.final.Account)
	return j.room.Resize(ctx, room)
}

// noteJoined caches the ended rows of the joined partial uploads and cancels their timers. It is
// called after the commit.
func (c *concatenator) noteJoined(ctx context.Context, j *concatRun) {
	for id, l := range j.lives {
		l.setRow(j.rows[id])
		c.sched.disarm(ctx, j.rows[id])
	}
}

// classify interprets the error of the Concat transaction. It returns retry if the row of a partial
// upload has changed, because another instance won; otherwise err.
func (c *concatenator) classify(ctx context.Context, j *concatRun, err error) (out outcome, _ error) {
	for _, row := range j.rows {
		if out, err = c.transitions.classify(ctx, row, err); err == nil {
			break
		}
	}
	return out, err
}

// concatTx is the transaction of Concat: it inserts the final upload with its head and event, and
// marks the partial uploads of j as joined. It fills in the target of j.final and returns the view
// of the final upload. On an error the caller must roll tx back.
func (c *concatenator) concatTx(ctx context.Context, tx *sqldb.Tx, b Begin, j *concatRun) (View, error) {
	final := j.final
	if err := c.ledger.Lock(ctx, tx, final.Account); err != nil {
		return View{}, err
	}
	if err := c.creator.setPlace(ctx, tx, b, &final); err != nil {
		return View{}, err
	}
	if err := c.tree.CheckPlace(ctx, tx, final.Account, final.place()); err != nil {
		return View{}, err
	}
	if err := c.transitions.checkAlive(ctx, tx); err != nil {
		return View{}, err
	}
	if err := insertRow(ctx, tx, final); err != nil {
		return View{}, err
	}
	if err := insertHead(ctx, tx, final.ID, j.head); err != nil {
		return View{}, err
	}
	if err := c.placer.emit(ctx, tx, stream.UploadBegun, final); err != nil {
		return View{}, err
	}
	j.final = final
	if err := c.joinAllTx(ctx, tx, j); err != nil {
		return View{}, err
	}
	return c.views.of(ctx, tx, final)
}

// joinAllTx ends the partial uploads within tx and moves their charges to the final upload. After
// the commit j.rows holds the ended rows. It returns errStale if one of them has changed.
func (c *concatenator) joinAllTx(ctx context.Context, tx *sqldb.Tx, j *concatRun) error {
	move := quota.Move{Reserved: j.final.Reserved}
	ended := map[drive.UploadID]Row{}
	for n, id := range j.partials {
		row, err := c.joinTx(ctx, tx, j.final, n, j.rows[id])
		if err != nil {
			return err
		}
		move.Reserved -= j.rows[id].Reserved
		move.Unfinished -= j.rows[id].Held
		ended[id] = row
	}
	if err := c.ledger.Apply(ctx, tx, j.final.Account, move); err != nil {
		return err
	}
	tx.AfterCommit(func() { j.rows = ended })
	return nil
}

// joinTx is the transition active or parked ⇒ gone of the n-th partial upload, whose bytes then
// belong to the final upload.
func (c *concatenator) joinTx(ctx context.Context, tx *sqldb.Tx, final Row, n int, was Row) (Row, error) {
	want := was
	want.State, want.Reason, want.Reserved, want.Held, want.Ended = Gone, ReasonJoined, 0, 0, c.clocks.now()
	row, err := updateRow(ctx, tx, was, want)
	if err != nil {
		return Row{}, err
	}
	if _, err := tx.Exec(ctx, `UPDATE upload_heads SET final_id = ? WHERE upload_id = ?`, final.ID, was.ID); err != nil {
		return Row{}, fmt.Errorf("record the final of upload %s: %w", was.ID, err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO upload_joins (partial_id, final_id, n, begun_at, part_size, size) VALUES (?,?,?,?,?,?)`,
		was.ID, final.ID, n, was.Created, was.PartSize, was.Size)
	if err != nil {
		return Row{}, fmt.Errorf("record that upload %s is joined: %w", was.ID, err)
	}
	return row, c.placer.emit(ctx, tx, stream.UploadGone, row)
}
