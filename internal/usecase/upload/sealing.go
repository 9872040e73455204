package upload

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload/disk"
)

// sealing is a seal that runs or has ended.
type sealing struct {
	done chan struct{}
	read atomic.Int64 // bytes read for declared digests
	room *disk.Room   // for what a concatenation copies

	// After done is closed: how it ended.
	row Row
	out outcome // again: the upload is open, and it was not this seal that had it opened
	err error
}

// sealer makes files of uploads: it begins seals, runs them, and waits for them.
type sealer struct {
	db      *sqldb.DB
	tree    *tree.Tree
	ledger  quota.Ledger
	content content.Content
	inspect content.Inspector
	staging blob.Staging
	table   *table
	sched   *schedule
	clocks  clocks
	arrows  *arrows
	placer  *placer
	views   *views
	follow  *followers
	joins   *joins
	disk    *disk.Promises
	work    *background
	shared  bool
	wait    time.Duration // Options.SealWait
	log     *slog.Logger

	closeTail func(ctx context.Context, who drive.Who, l *live, size drive.ByteSize) error // makes the last part of what is its tail
	reclaimed func(ctx context.Context, l *live, row Row) (outcome, error)                 // deletes the bytes of one that is reclaiming

	misses misses
}

// seal takes an upload in state sealing to done, or back to active. It can be redone after a crash
// at any point:
//
//	verify    changes nothing
//	Seal      the staged bytes become content named after the upload; done already is success
//	read      what must be read and can be only now; changes nothing
//	inspect   stored content with the same digest: bad bytes are replaced by these
//	commit    content row, node, ledger, state: one transaction; only the first one finds state sealing and its gen
//	remove    the journal; a staging without an open row is removed by the auditor
//
// Other errors than the client's leave it sealing; the park timer redoes it. Bytes that are in
// neither place end it; where others seal too, when they stay away.
func (s *sealer) seal(ctx context.Context, l *live, row Row, run *sealing) (Row, outcome, error) {
	parts, n, err := s.verify(ctx, l, row, run)
	if drive.IsKind(err, drive.PartsMissing) { // so it is a final one, whose parts nobody has sent
		if err = s.joins.join(ctx, row, run, err); err == nil {
			parts, n, err = s.verify(ctx, l, row, run)
		}
	}
	if err == nil {
		err = s.tree.CheckPlace(ctx, s.db, row.Account, row.place())
	}
	if err == nil {
		err = lost(s.staging.Seal(ctx, row.Ref(), row.Size))
	}
	if err == nil && !s.readable(parts) {
		n, err = s.readSealed(ctx, row, parts, n, run)
	}
	if err == nil {
		err = s.inspect.Prepare(ctx, &n)
	}
	if turnErr := l.takeTurn(ctx); turnErr != nil {
		return row, settled, turnErr
	}
	defer l.giveTurn()
	if !errors.Is(err, errBytesLost) {
		s.misses.forget(row.ID)
	}
	left, out := row, settled
	if err == nil {
		if left, out, err = s.publish(ctx, l, row, n); err == nil && out == settled {
			s.arrows.clear(ctx, left)
			return left, settled, nil
		}
	}
	if err != nil {
		left, out, err = s.notSealed(ctx, l, row, err)
	}
	if out == again {
		return s.overtaken(ctx, l)
	}
	return left, settled, err
}

// notSealed decides what becomes of an upload whose seal has failed.
func (s *sealer) notSealed(ctx context.Context, l *live, row Row, cause error) (Row, outcome, error) {
	switch {
	case errors.Is(cause, errBytesLost) && s.shared && !s.misses.lost(row.ID, s.clocks.now()):
		cause = drive.Wrap(cause, drive.Unavailable)
	case errors.Is(cause, errBytesLost):
		s.misses.forget(row.ID)
		out, err := s.lose(ctx, l, row, cause)
		return row, out, err
	case clientsFault(cause):
		return s.unseal(ctx, l, row, cause)
	}
	return row, settled, cause
}

// errBytesLost marks what only the staging may say: its bytes are gone. A missing row is not a
// reason to delete anything.
var errBytesLost = errors.New("the bytes are in neither place")

func lost(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		return errors.Join(err, errBytesLost)
	}
	return err
}

// overtaken reads how an upload has ended whose seal somebody else has finished. One that is active
// again can be completed again.
func (s *sealer) overtaken(ctx context.Context, l *live) (Row, outcome, error) {
	row, err := s.table.load(ctx, l)
	if err != nil {
		return row, settled, err
	}
	switch row.State {
	case Active, Parked:
		return row, again, nil
	case Reclaiming, Gone:
		return row, settled, row.ended()
	case Sealing, Done:
	}
	return row, settled, nil
}

// clientsFault reports whether an error is one that the client can repair and complete again.
func clientsFault(err error) bool {
	return tree.IsStale(err) || drive.IsKind(err, drive.DigestMismatch, drive.NameTaken, drive.ParentGone, drive.VersionChanged, drive.Locked, drive.BadName,
		drive.TooLarge, drive.PartsMissing, drive.PartSize, drive.DigestRequired, drive.Quota)
}

// verify computes the digests of what has arrived and compares them with those declared, as far as
// the staging lets it.
func (s *sealer) verify(ctx context.Context, l *live, row Row, run *sealing) ([]blob.Part, content.New, error) {
	staged, err := s.staging.Load(ctx, row.Ref())
	if err == nil && staged.Suspect { // since it began to seal
		staged, err = s.staging.Verify(ctx, row.Ref(), row.Gen)
	}
	if err != nil {
		return nil, content.New{}, lost(err)
	}
	if err := row.checkParts(staged.Parts); err != nil {
		return nil, content.New{}, err
	}
	if slices.ContainsFunc(staged.Parts, unread) {
		return staged.Parts, content.New{}, nil
	}
	n := summarize(row, staged.Parts)
	computed := digest.Set{digest.Blake3: n.Sum[:]}
	aliases := row.Digests.Aliases()
	if !s.readable(staged.Parts) {
		return staged.Parts, n, without(row.Digests, aliases).Check(computed)
	}
	if len(aliases) > 0 {
		if n.Aliases, err = s.follow.sums(ctx, l, row, &run.read); err != nil {
			return nil, content.New{}, err
		}
		maps.Copy(computed, n.Aliases)
	}
	return staged.Parts, n, row.Digests.Check(computed)
}

// summarize derives what is known of the file from its parts alone: nothing is read.
func summarize(row Row, parts []blob.Part) content.New {
	n := content.New{ID: drive.NewID[drive.BlobID](), File: row.ID.String(), Size: row.Size, PartSize: row.PartSize, Account: row.Account}
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

// publish is sealing ⇒ done: the file becomes visible, its bytes being complete, verified and
// durable (P3).
func (s *sealer) publish(ctx context.Context, l *live, row Row, n content.New) (Row, outcome, error) {
	return s.arrows.write(ctx, l, row, func(ctx context.Context, tx *sqldb.Tx) (Row, error) {
		if err := s.ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: row.Size, Reserved: -row.Reserved}); err != nil {
			return Row{}, err
		}
		if err := row.demand.expect.Check(ctx, tx, s.tree); err != nil {
			return Row{}, err
		}
		id, _, err := s.content.Attach(ctx, tx, n)
		if err != nil {
			return Row{}, err
		}
		return s.placer.done(ctx, tx, row, id)
	})
}

// unseal is sealing ⇒ active with all parts kept, because of an error that the client can repair;
// it returns that error.
func (s *sealer) unseal(ctx context.Context, l *live, row Row, cause error) (Row, outcome, error) {
	var staged blob.Staged
	var err error
	if !s.shared { // else both wait until a part asks for it (see reopen), for another instance may have been first
		if err = s.staging.Unseal(ctx, row.Ref()); err == nil {
			staged, err = s.staging.Load(ctx, row.Ref())
		}
	}
	if err != nil {
		return row, settled, err
	}
	now, err := s.clocks.ofRows(ctx)
	if err != nil {
		return row, settled, err
	}
	next := row
	next.State, next.Active = Active, now
	next, out, err := s.arrows.commit(ctx, l, row, next, quota.Move{})
	if err != nil || out == again {
		return row, out, err
	}
	l.touch(s.clocks.now())
	if !s.shared {
		l.adopt(next, staged)
	}
	s.sched.arm(ctx, next)
	return next, settled, cause
}

// lose ends an upload whose bytes are in neither place: somebody removed them behind our back.
func (s *sealer) lose(ctx context.Context, l *live, row Row, cause error) (outcome, error) {
	next := row
	next.State, next.Reason, next.Reserved = Reclaiming, ReasonLost, 0
	next, out, err := s.arrows.commit(ctx, l, row, next, quota.Move{Reserved: -row.Reserved})
	if err == nil && out == settled {
		s.sched.arm(ctx, next)
		s.log.ErrorContext(ctx, "the bytes of an upload are gone", "upload", row.ID, "error", cause)
		out, err = s.reclaimed(ctx, l, next)
	}
	switch {
	case err != nil:
		return settled, errors.Join(cause, err)
	case out == again:
		return again, nil
	}
	return settled, drive.Wrap(cause, drive.Gone, "reason", ReasonLost)
}
