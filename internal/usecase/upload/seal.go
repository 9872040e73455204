package upload

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// Complete is a request to finish an upload. It may change the target; zero fields keep the values
// of Begin.
type Complete struct {
	Digests  digest.Set
	Parent   drive.NodeID
	Name     drive.Name
	Conflict drive.Conflict
	Size     *drive.ByteSize // required if Begin did not declare it
	MTime    drive.Time
	Mime     string
	// Expect is the caller's precondition. It is checked in the transaction that begins the
	// seal, and again in the one that creates the file.
	Expect tree.Expect
}

// Complete seals the upload: it refuses further parts, verifies the received bytes and creates the
// file in one transaction. Nothing is copied or read again, except for declared digests other than
// BLAKE3. The seal continues if the caller disconnects. After SealWait the view's state is
// "sealing"; a repeated call waits for the same seal. created is false if the upload was done
// before.
//
// Errors after which the upload is active again with all parts: PartsMissing {missing},
// DigestMismatch, DigestRequired, NameTaken, ParentGone, VersionChanged, Locked, and errors for
// which tree.IsStale holds. Others: NotFound, Gone, BadRequest, Quota.
func (s *Sessions) Complete(ctx context.Context, who drive.Who, id drive.UploadID, c Complete) (v View, created bool, err error) {
	v, created, err = s.sealer.complete(ctx, who, id, c)
	return v.redactFor(who), created, err
}

// complete begins or joins the seal of an upload and waits for it, SealWait at most; after that v
// has state sealing and the seal continues. created is false if the upload was done before the
// call. It fails with PartsMissing {missing}, DigestMismatch or NameTaken, after which the upload
// is active again, and with the other errors of Sessions.Complete.
func (s *sealer) complete(ctx context.Context, who drive.Who, id drive.UploadID, c Complete) (v View, created bool, err error) {
	l := s.table.acquire(id)
	defer s.table.release(l)
	timeout := time.NewTimer(s.wait)
	defer timeout.Stop()
	if err := l.stopAppend(ctx); err != nil {
		return View{}, false, err
	}
	err = withRetry(func() (out outcome, err error) {
		at, err := s.beginSeal(ctx, who, id, c)
		switch {
		case err != nil:
			return finished, err
		case at.tail:
			return retry, s.closeTail(ctx, who, l, at.row.Size)
		}
		if at.row, out, err = s.awaitSeal(ctx, at, timeout.C); err != nil || out == retry {
			return out, err
		}
		v, created, err = s.sealView(ctx, at)
		return finished, err
	})
	return v, created, err
}

// sealState is the result of an attempt to begin a seal.
type sealState struct {
	run  *sealRun // the seal to await; nil: the upload is done, or another instance seals it
	row  Row
	tail bool // not begun: the last part is still a tail and must be closed first
}

// sealView builds the view after the wait for a seal. created reports whether the awaited seal
// created the file.
func (s *sealer) sealView(ctx context.Context, at sealState) (View, bool, error) {
	v, err := s.views.of(ctx, s.db, at.row)
	if err != nil {
		return View{}, false, err
	}
	if at.row.State == Sealing {
		v.Progress = &Progress{Total: at.row.Size}
		if at.run != nil {
			v.Progress.Done = drive.ByteSize(at.run.read.Load())
		}
	}
	return v, at.run != nil && at.row.State == Done, nil
}

// awaitSeal waits for the seal and returns the upload's row. After timeout the row is still
// sealing, without an error. It returns retry if the upload is open again and the seal must be
// begun anew, and InProgress if ctx ends.
func (s *sealer) awaitSeal(ctx context.Context, at sealState, timeout <-chan time.Time) (Row, outcome, error) {
	switch {
	case at.run == nil && at.row.State == Sealing:
		return s.watchSeal(ctx, at.row, timeout)
	case at.run == nil:
		return at.row, finished, nil
	}
	select {
	case <-at.run.done:
		return at.run.row, at.run.out, at.run.err
	case <-timeout:
		return at.row, finished, nil
	case <-ctx.Done():
		return at.row, finished, drive.Wrap(ctx.Err(), drive.InProgress, "retry_after", 1)
	}
}

// beginSeal is the transition active or parked ⇒ sealing. If another instance seals the upload, run
// stays nil; should that instance die, a timer restarts the seal.
func (s *sealer) beginSeal(ctx context.Context, who drive.Who, id drive.UploadID, c Complete) (at sealState, err error) {
	err = withStateLock(ctx, s.table, id, func(l *liveUpload) (out outcome, err error) {
		row, err := s.table.loadAuthorized(ctx, who, l)
		if err != nil {
			return finished, err
		}
		row.conditions = c.conditions(who, row)
		at = sealState{row: row}
		switch row.State {
		case Done:
			return finished, nil
		case Sealing:
			if _, running := s.runningSeal(l); !s.shared || running {
				at.run = s.startSeal(l, row)
			}
			return finished, nil
		case Reclaiming, Gone:
			return finished, row.ended()
		case Active, Parked:
		}
		if row.isPartial() {
			return finished, row.errPartial()
		}
		if err := s.table.auth.mayMove(ctx, who, row, c.Parent, c.Conflict); err != nil {
			return finished, err
		}
		at, out, err = s.sealOpen(ctx, l, row, c)
		return out, err
	})
	return at, err
}

// sealOpen is the transition active or parked ⇒ sealing. It drains the writers, checks the parts,
// fences the staging, commits and starts the seal. If the last part is still a tail it changes
// nothing and sets tail. The caller holds the state lock.
func (s *sealer) sealOpen(ctx context.Context, l *liveUpload, row Row, c Complete) (sealState, outcome, error) {
	l.refuseParts(drive.Fail(drive.WrongState, "state", Sealing.Public()))
	defer l.admitParts()
	if err := l.drain(ctx, false); err != nil {
		return sealState{}, finished, err
	}
	was := row.Gen
	asked := row.conditions
	row, err := s.table.load(ctx, l)
	row.conditions = asked
	switch {
	case err != nil:
		return sealState{}, finished, err
	case row.Gen != was: // the last parts may have enlarged the reservation
		return sealState{}, retry, nil
	}
	next, err := s.applyComplete(ctx, row, c)
	if err != nil {
		return sealState{}, finished, err
	}
	staged, err := s.staging.Load(ctx, row.Ref())
	if err == nil && next.endsInTail(staged) {
		return sealState{row: next, tail: true}, finished, nil
	}
	if err == nil {
		err = next.checkParts(staged.Parts)
	}
	if err == nil {
		staged, err = s.closeStaged(ctx, l, row, next)
	}
	if drive.IsKind(err, drive.NotFound) {
		out, err := s.transitions.checkMissing(ctx, l, row, err)
		return sealState{}, out, err
	}
	if err != nil {
		return sealState{}, finished, err
	}
	next.State, next.Held, next.Received = Sealing, 0, sum(staged)
	next.Reserved = max(row.Reserved, next.Size)
	move := quota.Move{Reserved: next.Reserved - row.Reserved, Unfinished: -row.Held}
	next, out, err := s.transitions.commitWith(ctx, l, row, next, move, func(ctx context.Context, tx *sqldb.Tx) error { return s.checkExpected(ctx, tx, row) })
	if err != nil || out == retry {
		return sealState{}, out, err
	}
	s.sched.arm(ctx, next)
	return sealState{run: s.startSeal(l, next), row: next}, finished, nil
}

// conditions returns the request's preconditions. Lock tokens count only if the caller is the
// uploader.
func (c Complete) conditions(who drive.Who, row Row) conditions {
	d := conditions{expect: c.Expect}
	if who.User == row.User {
		d.tokens = who.Tokens
	}
	return d
}

// checkExpected returns the error of the completing request's precondition on the tree, nil if it
// has none. It locks the account's ledger in tx first, so that the checked state holds until tx
// ends.
func (s *sealer) checkExpected(ctx context.Context, tx *sqldb.Tx, row Row) error {
	if row.conditions.expect.IsEmpty() {
		return nil
	}
	if err := s.ledger.Lock(ctx, tx, row.Account); err != nil {
		return err
	}
	return row.conditions.expect.Check(ctx, tx, s.tree)
}

// closeStaged fences the staging of an upload that is about to be sealed as next, verifies the
// parts if a power loss may have damaged some, and checks that all are there (the errors of
// checkParts). If it fails after the fence, the upload stays open: the next part gives it a new
// gen.
func (s *sealer) closeStaged(ctx context.Context, l *liveUpload, row, next Row) (blob.Staged, error) {
	l.noteFenced(row.Gen)
	staged, err := s.staging.Fence(ctx, row.Ref(), row.Gen)
	if err == nil && staged.Suspect {
		if staged, err = s.staging.Verify(ctx, row.Ref(), row.Gen); err == nil && row.State == Active {
			l.setStaged(row, staged)
		}
	}
	if err != nil {
		return staged, err
	}
	return staged, next.checkParts(staged.Parts)
}

// applyComplete returns the row with the changes of c. Errors: BadRequest {field size}, TooLarge,
// and those of a new target.
func (s *sealer) applyComplete(ctx context.Context, row Row, c Complete) (Row, error) {
	next := row
	switch {
	case row.Size == blob.UnknownSize && c.Size == nil:
		return Row{}, drive.BadField("size", drive.Required)
	case row.Size == blob.UnknownSize && (*c.Size < 0 || *c.Size > row.MaxSize()):
		return Row{}, drive.Fail(drive.TooLarge, "field", "size", "limit", row.MaxSize(), "sent", *c.Size)
	case row.Size == blob.UnknownSize:
		next.Size = *c.Size
	case c.Size != nil && *c.Size != row.Size:
		return Row{}, drive.BadField("size", drive.NotAllowed, "allowed", []drive.ByteSize{row.Size}, "sent", *c.Size)
	}
	next.Digests = mergeDigests(row.Digests, c.Digests)
	setIf(&next.MTime, c.MTime)
	setIf(&next.Mime, c.Mime)
	return s.placer.withTarget(ctx, next, c.Parent, c.Name, c.Conflict)
}

// setIf assigns value to field unless value is zero.
func setIf[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// mergeDigests returns the union of a and b; b wins.
func mergeDigests(a, b digest.Set) digest.Set {
	all := digest.Set{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// maxMissing bounds the list of missing parts in the error. A client that misses more lists the
// received parts.
const maxMissing = 1000

// checkParts checks that parts cover the file exactly (PartsMissing, PartSize). If several sessions
// sent them it requires a strong declared digest (DigestRequired).
func (r Row) checkParts(parts []blob.Part) error {
	missing, want, mixed := []int{}, 0, false
	var session *[16]byte
	for _, p := range parts {
		for ; want < p.N && want < r.Parts(); want++ {
			missing = append(missing, want)
		}
		want = p.N + 1
		if !p.Unread { // the sender of the others is unknown
			mixed = mixed || session != nil && *session != p.Session
			session = &p.Session
		}
		if p.N >= r.Parts() || p.Size != r.partLength(p.N) {
			return drive.Fail(drive.PartSize, "part", p.N, "limit", max(0, r.partLength(p.N)), "sent", p.Size)
		}
	}
	for ; want < r.Parts(); want++ {
		missing = append(missing, want)
	}
	if len(missing) > 0 {
		return drive.Fail(drive.PartsMissing, "missing", missing[:min(len(missing), maxMissing)])
	}
	if mixed && !r.Digests.Strong() {
		return drive.Fail(drive.DigestRequired, "allowed", []digest.Algo{digest.Blake3, digest.SHA256, digest.SM3})
	}
	return nil
}

// runningSeal returns the last seal of an upload, nil if none, and whether it still runs.
func (s *sealer) runningSeal(l *liveUpload) (*sealRun, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seal == nil {
		return nil, false
	}
	select {
	case <-l.seal.done:
		return l.seal, false
	default:
		return l.seal, true
	}
}

// startSeal returns the running seal of an upload in state sealing, or starts one. The caller holds
// the state lock.
func (s *sealer) startSeal(l *liveUpload, row Row) *sealRun {
	return s.startSealIn(l, row, s.disk.NewReservation(row.Account))
}

// startSealIn returns the running seal of an upload in state sealing, or starts one with the disk
// space reserved in room, which the seal takes over and closes. The caller holds the state lock.
func (s *sealer) startSealIn(l *liveUpload, row Row, room *disk.Reservation) *sealRun {
	if run, running := s.runningSeal(l); running {
		room.Close()
		return run
	}
	run := &sealRun{done: make(chan struct{}), row: row, room: room}
	l.mu.Lock()
	l.seal = run
	l.mu.Unlock()
	held := s.table.acquire(l.id) // keeps the liveUpload cached until the seal ends
	s.work.run(func(ctx context.Context) {
		defer s.table.release(held)
		defer close(run.done)
		defer s.keepSealTimer(ctx, row)()
		defer run.room.Close()
		run.row, run.out, run.err = s.sealSafely(ctx, l, row, run)
		if run.err != nil {
			s.log.Info("upload not sealed; its state tells whether a timer retries or the client must act", "upload", row.ID, "account", row.Account, "error", fmt.Sprint(run.err))
		}
	})
	return run
}

// sealSafely runs seal and turns a panic into an error, because a restart would redo the same seal
// and crash again. After a panic the cached state is invalidated.
func (s *sealer) sealSafely(ctx context.Context, l *liveUpload, row Row, run *sealRun) (left Row, out outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.ErrorContext(ctx, "seal of an upload panicked; a timer retries it", "upload", row.ID, "panic", p, "stack", string(debug.Stack()))
			l.invalidate()
			left, out, err = row, finished, fmt.Errorf("panic in a seal: %v", p)
		}
	}()
	return s.seal(ctx, l, row, run)
}
