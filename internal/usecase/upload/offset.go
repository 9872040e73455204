package upload

import (
	"context"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/blob"
)

// appendLock is the exclusive right to fill an upload by offset within this process.
type appendLock struct {
	stop func()        // interrupts the holder's request
	done chan struct{} // closed when the holder has released the lock
}

// lockAppend acquires the append lock. It interrupts the current holder and waits for its end; it
// returns InProgress if ctx ends first. stop is called to interrupt this holder when a later
// request wants the lock. On success the caller must call end to release it.
func (l *liveUpload) lockAppend(ctx context.Context, stop func()) (end func(), err error) {
	l.table.order.acquire(l.id, rankAppending)
	mine := &appendLock{stop: stop, done: make(chan struct{})}
	for {
		before := l.tryAppend(mine)
		if before == nil {
			return func() { l.unlockAppend(mine) }, nil
		}
		before.stop()
		select {
		case <-before.done:
		case <-ctx.Done():
			l.table.order.release(l.id, rankAppending)
			return nil, drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
		}
	}
}

// stopAppend interrupts a running Append and waits for its end; another may begin afterwards. It
// returns an error only if ctx ends first.
func (l *liveUpload) stopAppend(ctx context.Context) error {
	end, err := l.lockAppend(ctx, func() {})
	if err == nil {
		end()
	}
	return err
}

// tryAppend acquires the append lock for mine and returns nil, or returns its current holder, which
// the caller must stop first.
func (l *liveUpload) tryAppend(mine *appendLock) (before *appendLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before = l.appending; before == nil {
		l.appending = mine
	}
	return before
}

// unlockAppend releases the append lock that mine holds and wakes the request that waits for
// mine.done.
func (l *liveUpload) unlockAppend(mine *appendLock) {
	l.table.order.release(l.id, rankAppending)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appending = nil
	close(mine.done)
}

// Offset returns the progress of an upload. It first interrupts a running Append. An ended upload
// is only read: a gone one is no error but has State Gone.
//
// Errors: NotFound, InProgress; Gone {reason} if the bytes of an open upload were removed from
// outside.
func (s *Sessions) Offset(ctx context.Context, who drive.Who, id drive.UploadID) (Position, error) {
	return s.appender.position(ctx, who, id)
}

// position returns the offset, size and head of an upload that who may use. For an active or parked
// upload it interrupts a running Append first, so that the offset does not move; for others the
// offset is the size, 0 if unknown. Errors: NotFound, and what the lookups return.
func (a *appender) position(ctx context.Context, who drive.Who, id drive.UploadID) (Position, error) {
	row, err := findRow(ctx, a.db, id)
	if err == nil {
		_, err = a.table.auth.authorize(ctx, who, &row)
	}
	if err != nil {
		return Position{}, err
	}
	offset := max(0, row.Size)
	if row.State == Active || row.State == Parked {
		if row, offset, err = a.offset(ctx, who, id); err != nil {
			return Position{}, err
		}
	}
	h, err := findHead(ctx, a.db, id)
	return Position{
		Offset: offset, Size: row.Size, MaxSize: row.MaxSize(), State: row.State, ExpiresAt: a.sched.expiresAt(row), Node: row.Node,
		Kind: h.Kind, Protocol: h.Protocol, Metadata: h.Metadata, Partials: h.Partials, Joined: row.Reason == ReasonJoined,
	}, err
}

// offset interrupts a running Append, then returns the row and the offset of an upload that was
// open when it was last read. If the upload has ended meanwhile, the offset is its size.
func (a *appender) offset(ctx context.Context, who drive.Who, id drive.UploadID) (row Row, offset drive.ByteSize, err error) {
	l := a.table.acquire(id)
	defer a.table.release(l)
	end, err := l.lockAppend(ctx, func() {}) // a short operation needs no stop
	if err != nil {
		return Row{}, 0, err
	}
	defer end()
	err = withStateLock(ctx, a.table, id, func(l *liveUpload) (_ outcome, err error) {
		if row, err = a.table.loadAuthorized(ctx, who, l); err != nil {
			return finished, err
		}
		if row.State != Active && row.State != Parked {
			offset = max(0, row.Size)
			return finished, nil
		}
		staged, err := a.loadVerified(ctx, l, row)
		if drive.IsKind(err, drive.NotFound) {
			return a.transitions.checkMissing(ctx, l, row, err)
		}
		offset = row.prefix(staged.Parts, staged.Tails)
		return finished, err
	})
	if row.State == Active {
		row.Active = max(row.Active, a.now())
	}
	return row, offset, err
}

// loadVerified returns the staged parts. If a power loss may have damaged some, it verifies them
// first and drops those; the cache of an active upload is then invalidated. The caller holds the
// state lock.
func (a *appender) loadVerified(ctx context.Context, l *liveUpload, row Row) (blob.Staged, error) {
	staged, err := a.staging.Load(ctx, row.Ref())
	if err != nil || !staged.Suspect {
		return staged, err
	}
	if staged, err = a.staging.Verify(ctx, row.Ref(), row.Gen); err == nil && row.State == Active {
		l.invalidate()
	}
	return staged, err
}

// prefix returns the length of the received bytes from the file's start to the first gap. parts are
// ordered by number.
func (r Row) prefix(parts, tails []blob.Part) (n drive.ByteSize) {
	next := 0
	for _, p := range parts {
		if p.N != next {
			break
		}
		n += p.Size
		if next++; p.Size != r.PartSize {
			return n
		}
	}
	if i := slices.IndexFunc(tails, func(p blob.Part) bool { return p.N == next }); i >= 0 {
		n += tails[i].Size
	}
	return n
}

// prepare makes an upload ready to be filled and returns its offset. The caller holds the append
// lock; writers of other instances are fenced.
func (a *appender) prepare(ctx context.Context, who drive.Who, l *liveUpload) (row Row, offset drive.ByteSize, err error) {
	err = withRetry(func() (out outcome, err error) {
		at, ready, err := l.cachedPosition(who)
		row, offset = at.row, at.offset
		switch {
		case err != nil:
			return finished, err
		case !ready:
			return retry, a.makeReady(ctx, who, l.id)
		case a.shared:
			offset, out, err = a.syncShared(ctx, l, at)
		}
		return out, err
	})
	return row, offset, err
}

// cachedState is the cached state of an upload that is to be filled.
type cachedState struct {
	row     Row
	offset  drive.ByteSize // end of the received prefix
	writers int            // number of parts being written
}

// cachedPosition returns the cached row, offset and number of writers. If ready is false, without
// an error, the caller must call makeReady first. It fails if who may not use the upload or parts
// are refused.
func (l *liveUpload) cachedPosition(who drive.Who) (at cachedState, ready bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	may := true
	if l.loaded {
		if may, err = l.authorizedLocked(who); err != nil {
			return cachedState{}, false, err
		}
	}
	switch {
	case l.admission == admitRefuse:
		return cachedState{}, false, l.refusal
	case !l.ready() || !may:
		return cachedState{}, false, nil
	}
	return cachedState{l.row, l.offsetLocked(), len(l.writers)}, true, nil
}

// offsetLocked returns the length of the cached prefix of the file, up to the first gap. The caller
// holds l.mu.
func (l *liveUpload) offsetLocked() drive.ByteSize {
	for n := 0; ; n++ {
		p, ok := l.parts[n]
		if ok && p.Size == l.row.PartSize {
			continue
		}
		if !ok {
			p = l.tails[n]
		}
		return drive.ByteSize(n)*l.row.PartSize + p.Size
	}
}

// syncShared reads the offset from a staging that several instances share, and caches the parts
// that others received. If another instance writes to the upload, it returns retry and marks the
// gen as fenced, so that makeReady writes a new gen and stops that writer: the client is connected
// here now.
func (a *appender) syncShared(ctx context.Context, l *liveUpload, at cachedState) (drive.ByteSize, outcome, error) {
	staged, err := a.staging.Load(ctx, at.row.Ref())
	switch {
	case drive.IsKind(err, drive.NotFound):
		out, err := a.receiver.stagingGone(ctx, l, at.row, err, false)
		return 0, out, err
	case err != nil:
		return 0, finished, err
	case staged.Writing > at.writers:
		l.noteFenced(at.row.Gen)
		return 0, retry, nil
	}
	for _, p := range staged.Parts {
		l.addRemotePart(p, false)
	}
	for _, p := range staged.Tails {
		l.addRemotePart(p, true)
	}
	return at.row.prefix(staged.Parts, staged.Tails), finished, nil
}

// DeclareSize sets the length of a file that was begun with unknown size. Repeating the same size
// is no error.
//
// Errors: NotFound, Gone {reason}, WrongState {state}, TooLarge {limit, sent}, Quota, DiskFull,
// BadRequest {field size} (smaller than what has arrived, or another one was declared before).
func (s *Sessions) DeclareSize(ctx context.Context, who drive.Who, id drive.UploadID, size drive.ByteSize) error {
	return s.appender.declareSize(ctx, who, id, size)
}

// declareSize interrupts a running Append, waits for its end, and sets the length of an upload
// begun with unknown size. It fails with NotFound, Gone {reason} or WrongState {state} if the
// upload cannot be filled, with TooLarge, and with BadRequest {field size} if the size is smaller
// than what has arrived or another one was declared before.
func (a *appender) declareSize(ctx context.Context, who drive.Who, id drive.UploadID, size drive.ByteSize) error {
	l := a.table.acquire(id)
	defer a.table.release(l)
	end, err := l.lockAppend(ctx, func() {})
	if err != nil {
		return err
	}
	defer end()
	return a.declare(ctx, who, l, size)
}

// declare sets the length of a file that was begun with unknown size; the same length again is no
// error. The caller holds the append lock. It fails with TooLarge {limit, sent}, and with
// BadRequest {field size} if the size is smaller than what has arrived or another one was declared
// before.
func (a *appender) declare(ctx context.Context, who drive.Who, l *liveUpload, size drive.ByteSize) error {
	return withRetry(func() (outcome, error) {
		row, offset, err := a.prepare(ctx, who, l)
		if err != nil {
			return finished, err
		}
		switch {
		case row.Size == size:
			return finished, a.closeTail(ctx, who, l, row, size)
		case row.Size != blob.UnknownSize:
			return finished, drive.BadField("size", drive.NotAllowed, "allowed", []drive.ByteSize{row.Size}, "sent", size)
		case size < offset:
			return finished, drive.BadField("size", drive.OutOfRange, "min", offset, "max", row.MaxSize(), "sent", size)
		case size > row.MaxSize():
			return finished, drive.Fail(drive.TooLarge, "field", "size", "limit", row.MaxSize(), "sent", size)
		}
		return retry, a.commitSize(ctx, who, l, row, size)
	})
}

// commitSize writes the length into the row under a new gen, which fences writers that assume an
// unknown length. It does nothing if the upload has changed; the caller checks again anyway.
func (a *appender) commitSize(ctx context.Context, who drive.Who, l *liveUpload, was Row, size drive.ByteSize) error {
	if err := l.lockState(ctx); err != nil {
		return err
	}
	defer l.unlockState()
	row, err := a.table.loadAuthorized(ctx, who, l)
	if err != nil || row.Gen != was.Gen || row.State != Active {
		return err
	}
	more := max(0, size-row.Reserved)
	if err := a.receiver.disk.Reserve(ctx, row.Account, more); err != nil {
		return err
	}
	defer a.receiver.disk.Release(row.Account, more)
	l.pauseParts()
	defer l.admitParts()
	if err := l.drain(ctx, true); err != nil {
		return err
	}
	l.noteFenced(row.Gen)
	if _, err := a.staging.Fence(ctx, row.Ref(), row.Gen); err != nil {
		return err
	}
	next := row
	next.Size, next.Reserved = size, size
	next, out, err := a.transitions.commit(ctx, l, row, next, quota.Move{Reserved: size - row.Reserved})
	if err == nil && out == finished {
		a.sched.arm(ctx, next)
	}
	return err
}

// closeTail turns the tail that ends an upload of size bytes into its last part; it does nothing if
// there is no such tail. Such a tail exists if the length was unknown when its last bytes came. The
// caller holds the append lock.
func (a *appender) closeTail(ctx context.Context, who drive.Who, l *liveUpload, row Row, size drive.ByteSize) error {
	n, at := int(size/row.PartSize), size%row.PartSize
	l.mu.Lock()
	tail, ok := l.tails[n]
	l.mu.Unlock()
	if !ok || tail.Size != at {
		return nil
	}
	f := &appendRun{appender: a, upload: l, who: who, offset: size, partSize: row.PartSize, stop: func() {}}
	return withRetry(func() (outcome, error) {
		_, out, err := f.extend(ctx, &partBody{stopped: func() error { return nil }}, at)
		return out, err
	})
}

// endsInTail reports whether staged holds the last part as a tail of full length. Such a tail is
// not in staged.Parts: the caller must turn it into a part with closeTail. r.Size must be known.
func (r Row) endsInTail(staged blob.Staged) bool {
	n := int(r.Size / r.PartSize)
	return slices.ContainsFunc(staged.Tails, func(p blob.Part) bool { return p.N == n && p.Size == r.Size%r.PartSize })
}

// closeTailAt acquires the append lock and turns the tail that ends an upload of size bytes into
// its last part.
func (a *appender) closeTailAt(ctx context.Context, who drive.Who, l *liveUpload, size drive.ByteSize) error {
	end, err := l.lockAppend(ctx, func() {})
	if err != nil {
		return err
	}
	defer end()
	row, _, err := a.prepare(ctx, who, l)
	if err != nil {
		return err
	}
	return a.closeTail(ctx, who, l, row, size)
}
