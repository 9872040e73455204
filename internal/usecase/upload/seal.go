package upload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/blob"
)

// Complete says that all parts are there, and may still change where the file goes. Zero fields keep what begin said.
type Complete struct {
	Digests  digest.Set
	Parent   drive.NodeID
	Name     drive.Name
	Conflict drive.Conflict
	Size     *drive.ByteSize // needed where begin did not declare it
}

// Complete seals the upload: no part is accepted any more, what arrived is verified, and becomes a file in one transaction.
// Nothing is copied or read again (but for declared digests other than BLAKE3). The seal goes on when the caller is gone;
// when it takes longer than SealWait the view says "sealing", and a repeat waits for the same seal. created is false when the
// upload was done before.
//
// Errors, after which the upload is active with all its parts: PartsMissing {missing}, DigestMismatch, DigestRequired,
// NameTaken, ParentGone, VersionChanged. Others: NotFound, Gone, BadRequest, Quota.
func (s *Sessions) Complete(ctx context.Context, who drive.Who, id drive.UploadID, c Complete) (v View, created bool, err error) {
	l := s.table.enter(id)
	defer s.table.leave(l)
	timeout := time.NewTimer(s.opt.SealWait)
	defer timeout.Stop()
	var run *sealing
	var row Row
	if err := l.quietAppend(ctx); err != nil {
		return View{}, false, err
	}
	for range maxOvertaken {
		if run, row, err = s.beginSeal(ctx, who, l, c); err == nil {
			run, row, err = s.awaitSeal(ctx, run, row, timeout.C)
		}
		if e, ok := errors.AsType[unclosedError](err); ok {
			if err = s.closeAt(ctx, who, l, e.size); err == nil {
				err = errLost // once more
			}
		}
		if !errors.Is(err, errLost) {
			break
		}
	}
	if err != nil {
		return View{}, false, err
	}
	if v, err = s.view(ctx, s.DB, row); err != nil {
		return View{}, false, err
	}
	if row.State == Sealing {
		v.Progress = &Progress{Total: row.Size}
	}
	if run != nil && row.State == Sealing {
		v.Progress.Done = drive.ByteSize(run.read.Load())
	}
	return v, run != nil && row.State == Done, nil
}

// awaitSeal waits until an upload has ended its seal, or until timeout: then it is sealing still. errLost: it must be begun anew.
func (s *Sessions) awaitSeal(ctx context.Context, run *sealing, row Row, timeout <-chan time.Time) (*sealing, Row, error) {
	switch {
	case run == nil && row.State == Sealing:
		row, err := s.watchSeal(ctx, row, timeout)
		return nil, row, err
	case run == nil:
		return nil, row, nil
	}
	select {
	case <-run.done:
		return run, run.row, run.err
	case <-timeout:
		return run, row, nil
	case <-ctx.Done():
		return run, row, drive.Wrap(ctx.Err(), drive.InProgress, "retry_after", 1)
	}
}

// beginSeal is active or parked ⇒ sealing. It returns the seal to wait for; none when the upload is done already, or when another
// instance seals it (if that one dies the timer has it redone).
func (s *Sessions) beginSeal(ctx context.Context, who drive.Who, l *live, c Complete) (*sealing, Row, error) {
	if err := l.takeTurn(ctx); err != nil {
		return nil, Row{}, err
	}
	defer l.giveTurn()
	row, err := s.loadFor(ctx, who, l)
	if err != nil {
		return nil, Row{}, err
	}
	switch row.State {
	case Done:
		return nil, row, nil
	case Sealing:
		if _, running := s.finished(l); s.caps.Shared && !running {
			return nil, row, nil
		}
		return s.startSeal(l, row), row, nil
	case Reclaiming, Gone:
		return nil, row, row.ended()
	case Active, Parked:
	}
	if row.isPartial() {
		return nil, row, drive.Wrap(errPartial, drive.WrongState, "state", row.State.Public())
	}
	l.close(drive.Fail(drive.WrongState, "state", Sealing.Public()))
	defer l.open()
	if err := l.drain(ctx, false); err != nil {
		return nil, row, err
	}
	was := row.Gen
	if row, err = s.load(ctx, l); err == nil && row.Gen != was { // the last parts may have made the reservation grow
		err = errLost
	}
	if err != nil {
		return nil, row, err
	}
	next, err := s.readyToSeal(ctx, l, row, c)
	if err != nil {
		return nil, row, err
	}
	move := quota.Move{Reserved: next.Reserved - row.Reserved, Unfinished: -row.Held}
	if next, err = s.commit(ctx, l, row, next, move); err != nil {
		return nil, row, err
	}
	s.arm(ctx, next)
	return s.startSeal(l, next), next, nil
}

// readyToSeal checks that everything is there and closes the staging; it returns the row as it shall be while sealing. When
// it fails after the staging was closed, the next part opens it again under a new gen.
func (s *Sessions) readyToSeal(ctx context.Context, l *live, row Row, c Complete) (Row, error) {
	next, err := s.completed(ctx, row, c)
	if err != nil {
		return Row{}, err
	}
	staged, err := s.Staging.Load(ctx, row.Ref())
	if err == nil {
		err = next.unclosed(staged)
	}
	if err == nil {
		err = next.checkParts(staged.Parts)
	}
	if err == nil {
		l.refuse(row.Gen)
		staged, err = s.Staging.Fence(ctx, row.Ref(), row.Gen)
	}
	if err == nil && staged.Suspect {
		if staged, err = s.Staging.Verify(ctx, row.Ref(), row.Gen); err == nil && row.State == Active {
			s.adopt(l, row, staged)
		}
	}
	if err == nil {
		err = next.checkParts(staged.Parts)
	}
	if drive.IsKind(err, drive.NotFound) {
		return Row{}, s.missing(ctx, l, row, err)
	}
	next.State, next.Held, next.Received = Sealing, 0, sum(staged)
	next.Reserved = max(row.Reserved, next.Size)
	return next, err
}

// completed is the row with what complete changes.
func (s *Sessions) completed(ctx context.Context, row Row, c Complete) (Row, error) {
	next := row
	switch {
	case row.Size == blob.UnknownSize && c.Size == nil:
		return Row{}, drive.Bad("size", drive.Required)
	case row.Size == blob.UnknownSize && (*c.Size < 0 || *c.Size > row.MaxSize()):
		return Row{}, drive.Fail(drive.TooLarge, "field", "size", "limit", row.MaxSize(), "sent", *c.Size)
	case row.Size == blob.UnknownSize:
		next.Size = *c.Size
	case c.Size != nil && *c.Size != row.Size:
		return Row{}, drive.Bad("size", drive.NotAllowed, "allowed", []drive.ByteSize{row.Size}, "sent", *c.Size)
	}
	next.Digests = merge(row.Digests, c.Digests)
	return s.moved(ctx, next, c.Parent, c.Name, c.Conflict)
}

// moved is the row with another place. A replace acts on the version that is there when the place is chosen.
func (s *Sessions) moved(ctx context.Context, row Row, parent drive.NodeID, name drive.Name, conflict drive.Conflict) (Row, error) {
	if parent.IsZero() && name == "" && conflict == "" {
		return row, nil
	}
	if !parent.IsZero() {
		if _, err := s.Tree.Find(ctx, s.DB, row.Account, parent); err != nil {
			return Row{}, err
		}
		row.Parent = parent
	}
	if name != "" {
		row.Name = name
	}
	if conflict != "" {
		row.Conflict = conflict
	}
	return row, s.base(ctx, s.DB, &row)
}

func merge(a, b digest.Set) digest.Set {
	all := digest.Set{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// maxMissing bounds the list in the problem; a client that lacks more asks for the parts that are there.
const maxMissing = 1000

// checkParts checks that parts cover the file exactly, and that a digest was declared where several sessions sent them.
func (r Row) checkParts(parts []blob.Part) error {
	missing, want, mixed := []int{}, 0, false
	var session *[16]byte
	for _, p := range parts {
		for ; want < p.N && want < r.Parts(); want++ {
			missing = append(missing, want)
		}
		want = p.N + 1
		if !p.Unread { // who sent the others is not known any more
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

func (s *Sessions) finished(l *live) (*sealing, bool) {
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

// startSeal returns the running seal of an upload in state sealing, or starts one. The caller holds the turn.
func (s *Sessions) startSeal(l *live, row Row) *sealing { return s.startSealIn(l, row, 0) }

// startSealIn is startSeal with room of the disk that was reserved for it.
func (s *Sessions) startSealIn(l *live, row Row, room drive.ByteSize) *sealing {
	if run, running := s.finished(l); running {
		s.release(row.Account, room)
		return run
	}
	run := &sealing{done: make(chan struct{}), row: row}
	run.room.Store(int64(room))
	l.mu.Lock()
	l.seal = run
	l.mu.Unlock()
	held := s.table.enter(l.id) // keeps the live until the seal ends
	s.work.Go(func() {
		defer s.table.leave(held)
		defer close(run.done)
		defer s.keepSeal(row)()
		defer func() { s.release(row.Account, drive.ByteSize(run.room.Swap(0))) }()
		run.row, run.err = s.seal(s.stop, l, row, run)
		if run.err != nil {
			s.opt.Log.Info("upload not sealed", "upload", row.ID, "account", row.Account, "error", fmt.Sprint(run.err))
		}
	})
	return run
}
