package upload

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// sealRun is the latest seal of an upload in this process; requests that complete the upload wait
// for done.
type sealRun struct {
	done chan struct{}     // closed when the seal has ended
	read atomic.Int64      // bytes read or copied so far, for Progress
	room *disk.Reservation // disk space for the copies of a Concat

	// Result; valid after done is closed.
	row Row
	out outcome // retry: the upload is open again, by another request than this seal
	err error
}

// sealer turns uploads into files: it starts seals, runs them, and waits for them.
type sealer struct {
	db          *sqldb.DB
	tree        *tree.Tree
	ledger      quota.Ledger
	content     content.Content
	inspect     content.Inspector
	staging     blob.Staging
	table       *liveTable
	sched       *schedule
	clocks      clocks
	transitions *transitions
	placer      *placer
	views       *views
	hashers     *hashers
	merger      *merger
	disk        *disk.Reservations
	work        *background
	shared      bool
	wait        time.Duration // Options.SealWait
	log         *slog.Logger

	closeTail     func(ctx context.Context, who drive.Who, l *liveUpload, size drive.ByteSize) error // turns the tail that ends an upload of size bytes into its last part
	finishReclaim func(ctx context.Context, l *liveUpload, row Row) (outcome, error)                 // finishes the reclaim of an upload in state reclaiming

	missing missTracker
}

// seal takes an upload from sealing to done, or back to active. It can be repeated after a crash at
// any point:
//
//	verify    changes nothing
//	Seal      turns staged bytes into content named after the upload; succeeds if done before
//	read      reads what could not be read earlier; changes nothing
//	inspect   checks stored content with the same digest: damaged bytes are replaced by these
//	commit    content row, node, ledger and state in one transaction; only the first finds state sealing and its gen
//	remove    removes the journal; the auditor removes a staging without an open row
//
// Errors that the client cannot fix leave the upload sealing, and the park timer retries. Lost
// bytes end the upload; with a shared staging only once they stay missing for lostAfter.
func (s *sealer) seal(ctx context.Context, l *liveUpload, row Row, run *sealRun) (Row, outcome, error) {
	parts, n, err := s.verify(ctx, l, row, run)
	if drive.IsKind(err, drive.PartsMissing) { // a final upload, whose parts must be joined first
		if err = s.merger.join(ctx, row, run, err); err == nil {
			parts, n, err = s.verify(ctx, l, row, run)
		}
	}
	if err == nil {
		err = s.tree.CheckPlace(ctx, s.db, row.Account, row.place())
	}
	if err == nil {
		err = markBytesLost(s.staging.Seal(ctx, row.Ref(), row.Size))
	}
	if err == nil && !s.readable(parts) {
		n, err = s.readSealed(ctx, row, parts, n, run)
	}
	if err == nil {
		err = s.inspect.Prepare(ctx, &n)
	}
	if turnErr := l.lockState(ctx); turnErr != nil {
		return row, finished, turnErr
	}
	defer l.unlockState()
	if !errors.Is(err, errBytesLost) {
		s.missing.reset(row.ID)
	}
	left, out := row, finished
	if err == nil {
		if left, out, err = s.publish(ctx, l, row, n); err == nil && out == finished {
			s.transitions.cleanUp(ctx, left)
			return left, finished, nil
		}
	}
	if err != nil {
		left, out, err = s.handleSealError(ctx, l, row, err)
	}
	if out == retry {
		return s.reloadSealed(ctx, l)
	}
	return left, finished, err
}

// handleSealError decides what happens to an upload whose seal failed with cause. Lost bytes end
// it, with a shared staging only after lostAfter. An error that the client can fix reopens it.
// Otherwise it stays sealing and the park timer retries. It returns the row as left, cause or its
// replacement as the error, and retry if a concurrent change won.
func (s *sealer) handleSealError(ctx context.Context, l *liveUpload, row Row, cause error) (Row, outcome, error) {
	switch {
	case errors.Is(cause, errBytesLost) && s.shared && !s.missing.missingTooLong(row.ID, s.clocks.now()):
		cause = drive.Wrap(cause, drive.Unavailable)
	case errors.Is(cause, errBytesLost):
		s.missing.reset(row.ID)
		out, err := s.reclaimLost(ctx, l, row, cause)
		return row, out, err
	case isClientError(cause):
		return s.unseal(ctx, l, row, cause)
	}
	return row, finished, cause
}

// errBytesLost marks errors by which the staging reports that the bytes are missing. A missing row
// is never a reason to delete.
var errBytesLost = errors.New("the bytes are in neither place")

// markBytesLost joins errBytesLost to err if err is NotFound, which from the staging proves that
// the bytes are missing. Other errors, and nil, are returned unchanged.
func markBytesLost(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		return errors.Join(err, errBytesLost)
	}
	return err
}

// reloadSealed returns the state of an upload whose seal a concurrent request has finished; retry
// if the upload is open again.
func (s *sealer) reloadSealed(ctx context.Context, l *liveUpload) (Row, outcome, error) {
	row, err := s.table.load(ctx, l)
	if err != nil {
		return row, finished, err
	}
	switch row.State {
	case Active, Parked:
		return row, retry, nil
	case Reclaiming, Gone:
		return row, finished, row.ended()
	case Sealing, Done:
	}
	return row, finished, nil
}

// isClientError reports whether err is one that the client can fix before it completes the upload
// again: the upload is then reopened with its parts instead of being ended.
func isClientError(err error) bool {
	return tree.IsStale(err) || drive.IsKind(err, drive.DigestMismatch, drive.NameTaken, drive.ParentGone, drive.VersionChanged, drive.Locked, drive.BadName,
		drive.TooLarge, drive.PartsMissing, drive.PartSize, drive.DigestRequired, drive.Quota)
}

// verify loads the parts, computes their digests and compares the declared ones, as far as the
// staging can be read before the seal. Errors: DigestMismatch, PartsMissing, errBytesLost.
func (s *sealer) verify(ctx context.Context, l *liveUpload, row Row, run *sealRun) ([]blob.Part, content.NewContent, error) {
	staged, err := s.staging.Load(ctx, row.Ref())
	if err == nil && staged.Suspect { // a power loss occurred since the seal began
		staged, err = s.staging.Verify(ctx, row.Ref(), row.Gen)
	}
	if err != nil {
		return nil, content.NewContent{}, markBytesLost(err)
	}
	if err := row.checkParts(staged.Parts); err != nil {
		return nil, content.NewContent{}, err
	}
	if slices.ContainsFunc(staged.Parts, unread) {
		return staged.Parts, content.NewContent{}, nil
	}
	n := summarize(row, staged.Parts)
	computed := digest.Set{digest.Blake3: n.Sum[:]}
	aliases := row.Digests.Aliases()
	if !s.readable(staged.Parts) {
		return staged.Parts, n, withoutAlgos(row.Digests, aliases).Check(computed)
	}
	if len(aliases) > 0 {
		if n.Aliases, err = s.hashers.sums(ctx, l, row, &run.read); err != nil {
			return nil, content.NewContent{}, err
		}
		maps.Copy(computed, n.Aliases)
	}
	return staged.Parts, n, row.Digests.Check(computed)
}

// summarize returns the file's new content, with a new id, whose size, BLAKE3 root, CRC32 and part
// sums are computed from the sums of parts, without reading bytes. parts are all parts in order;
// none describe the empty file.
func summarize(row Row, parts []blob.Part) content.NewContent {
	n := content.NewContent{ID: drive.NewID[drive.BlobID](), File: row.ID.String(), Size: row.Size, PartSize: row.PartSize, Account: row.Account}
	cvs, sums := make([]digest.CV, len(parts)), make([]content.PartSum, len(parts))
	for i, p := range parts {
		cvs[i], sums[i] = p.CV, content.PartSum{CV: p.CV, CRC32: p.CRC32}
		n.CRC32 = digest.CombineCRC32(n.CRC32, p.CRC32, int64(p.Size))
	}
	switch len(parts) {
	case 0:
		n.Sum = digest.NewPart(0).Root()
	case 1:
		n.Sum = parts[0].Root
	default:
		n.Sum = digest.Fold(cvs)
	}
	n.Parts = content.PackParts(sums)
	return n
}

// publish is the transition sealing ⇒ done, which makes the file visible, in one transaction. The
// caller has made the bytes complete, verified and durable (P3), and holds the state lock. It
// returns retry if the row was changed concurrently.
func (s *sealer) publish(ctx context.Context, l *liveUpload, row Row, n content.NewContent) (Row, outcome, error) {
	return s.transitions.writeTx(ctx, l, row, func(ctx context.Context, tx *sqldb.Tx) (Row, error) {
		if err := s.ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: row.Size, Reserved: -row.Reserved}); err != nil {
			return Row{}, err
		}
		if err := row.conditions.expect.Check(ctx, tx, s.tree); err != nil {
			return Row{}, err
		}
		id, _, err := s.content.Attach(ctx, tx, n)
		if err != nil {
			return Row{}, err
		}
		return s.placer.finish(ctx, tx, row, id)
	})
}

// unseal is the transition sealing ⇒ active, keeping all parts, after an error that the client can
// fix. On success it returns that error, cause.
func (s *sealer) unseal(ctx context.Context, l *liveUpload, row Row, cause error) (Row, outcome, error) {
	var staged blob.Staged
	var err error
	if !s.shared { // with a shared staging, the next part reopens it (see reopen): another instance may have been first
		if err = s.staging.Unseal(ctx, row.Ref()); err == nil {
			staged, err = s.staging.Load(ctx, row.Ref())
		}
	}
	if err != nil {
		return row, finished, err
	}
	now, err := s.clocks.rowTime(ctx)
	if err != nil {
		return row, finished, err
	}
	next := row
	next.State, next.Active = Active, now
	next, out, err := s.transitions.commit(ctx, l, row, next, quota.Move{})
	if err != nil || out == retry {
		return row, out, err
	}
	l.touch(s.clocks.now())
	if !s.shared {
		l.setStaged(next, staged)
	}
	s.sched.arm(ctx, next)
	return next, finished, cause
}

// reclaimLost ends an upload whose bytes are missing from the store: it releases the upload's
// reservation, removes what is left of the content and makes its state Gone. Its error is then
// cause wrapped as Gone {reason lost}; if a step fails, cause joined with the error of that step.
// It returns retry and no error if a concurrent change won; the caller must read the row again.
func (s *sealer) reclaimLost(ctx context.Context, l *liveUpload, row Row, cause error) (outcome, error) {
	next := row
	next.State, next.Reason, next.Reserved = Reclaiming, ReasonLost, 0
	next, out, err := s.transitions.commit(ctx, l, row, next, quota.Move{Reserved: -row.Reserved})
	if err == nil && out == finished {
		s.sched.arm(ctx, next)
		s.log.ErrorContext(ctx, "bytes of a sealing upload are missing from the store; the upload was ended", "upload", row.ID, "error", cause)
		out, err = s.finishReclaim(ctx, l, next)
	}
	switch {
	case err != nil:
		return finished, errors.Join(cause, err)
	case out == retry:
		return retry, nil
	}
	return finished, drive.Wrap(cause, drive.Gone, "reason", ReasonLost)
}
