package upload

import (
	"bytes"
	"context"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// checkArrived returns PartsMissing {upload} if bytes of a partial upload are missing. It only
// reads, so requests that fill an upload continue.
func (c *concatenator) checkArrived(ctx context.Context, who drive.Who, partials []drive.UploadID) error {
	for _, id := range partials {
		row, err := findRow(ctx, c.db, id)
		if err = partialError(who, id, row, err); err != nil {
			return err
		}
		if row.State != Active && row.State != Parked {
			return nil // readPartials reports its state
		}
		staged, err := c.staging.Load(ctx, row.Ref())
		switch {
		case err != nil && !drive.IsKind(err, drive.NotFound):
			return err
		case row.Size == blob.UnknownSize || row.prefix(staged.Parts, staged.Tails) != row.Size:
			return drive.Fail(drive.PartsMissing, "upload", id)
		}
	}
	return nil
}

// partialError returns BadRequest {field partials} if the upload named by the request is not found
// or is not a partial upload of the caller; otherwise err. row and err are the result of findRow.
func partialError(who drive.Who, id drive.UploadID, row Row, err error) error {
	if err == nil && (row.Account != who.Account || !row.isPartial()) || drive.IsKind(err, drive.NotFound) {
		return drive.BadField("partials", drive.Unknown, "sent", id)
	}
	return err
}

// lockPartials locks all partial uploads of j within this process and drains their writers. It
// locks in the order of ids, so that two Concats cannot deadlock. The caller must call release,
// also on an error.
func (c *concatenator) lockPartials(ctx context.Context, j *concatRun) (release func(), err error) {
	var undo []func()
	release = func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	inOrder := slices.SortedFunc(slices.Values(j.partials), func(a, b drive.UploadID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range inOrder {
		l := c.table.acquire(id)
		undo = append(undo, func() { c.table.release(l) })
		j.lives[id] = l
		end, err := l.lockAppend(ctx, func() {})
		if err != nil {
			return release, err
		}
		undo = append(undo, end)
		if err := l.lockState(ctx); err != nil {
			return release, err
		}
		undo = append(undo, l.unlockState)
		l.pauseParts()
		undo = append(undo, l.admitParts)
		if err := l.drain(ctx, true); err != nil {
			return release, err
		}
	}
	return release, nil
}

// readPartials checks that the partial uploads are complete and fences them. It sets j.found if
// they were joined before, or j.tail to an upload whose last part must be closed first.
func (c *concatenator) readPartials(ctx context.Context, who drive.Who, j *concatRun) (out outcome, err error) {
	for i, id := range j.partials {
		row, err := c.table.load(ctx, j.lives[id])
		if err = partialError(who, id, row, err); err != nil {
			return finished, err
		}
		if row.State == Gone && row.Reason == ReasonJoined && i == 0 {
			j.found, err = c.findFinal(ctx, j.partials)
			return finished, err
		}
		if row.State != Active && row.State != Parked {
			return finished, row.ended()
		}
		staged, out, err := c.fencePartial(ctx, j.lives[id], row)
		if err != nil || out == retry {
			return out, err
		}
		if row.endsInTail(staged) {
			j.tail = row
			return finished, nil
		}
		if err := row.checkParts(staged.Parts); err != nil {
			return finished, err
		}
		j.rows[id] = row
		j.final.Size += row.Size
	}
	return finished, nil
}

// closePartialTail turns the tail of a partial upload of size bytes into its last part, so that the
// upload can be joined. It waits for a running append to end and fails if ctx ends first or the
// staging does.
func (c *concatenator) closePartialTail(ctx context.Context, who drive.Who, id drive.UploadID, size drive.ByteSize) error {
	l := c.table.acquire(id)
	defer c.table.release(l)
	return c.closeTail(ctx, who, l, size)
}

// fencePartial makes the staging refuse further writes to a partial upload under its gen, and
// returns its durable parts, verified if a power loss may have damaged them. It returns
// PartsMissing {upload} if the size is undeclared, retry if another instance has changed the row,
// and Gone {reason lost} if the bytes are missing.
func (c *concatenator) fencePartial(ctx context.Context, l *liveUpload, row Row) (blob.Staged, outcome, error) {
	if row.Size == blob.UnknownSize {
		return blob.Staged{}, finished, drive.Fail(drive.PartsMissing, "upload", row.ID)
	}
	l.noteFenced(row.Gen)
	staged, err := c.staging.Fence(ctx, row.Ref(), row.Gen)
	if err == nil && staged.Suspect {
		if staged, err = c.staging.Verify(ctx, row.Ref(), row.Gen); err == nil {
			l.invalidate()
		}
	}
	if drive.IsKind(err, drive.NotFound) {
		out, err := c.transitions.checkMissing(ctx, l, row, err)
		return blob.Staged{}, out, err
	}
	return staged, finished, err
}
