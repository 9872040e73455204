package upload

import (
	"context"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/blob"
)

// appending is an Append that runs, or an act that none may run beside.
type appending struct {
	stop func()
	done chan struct{}
}

// takeOver ends the Append that runs and keeps others away until end is called.
func (l *live) takeOver(ctx context.Context, stop func()) (end func(), err error) {
	l.of.order.take(l.id, rankAppending)
	mine := &appending{stop: stop, done: make(chan struct{})}
	for {
		before := l.tryAppend(mine)
		if before == nil {
			return func() { l.endAppend(mine) }, nil
		}
		before.stop()
		select {
		case <-before.done:
		case <-ctx.Done():
			l.of.order.give(l.id, rankAppending)
			return nil, drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
		}
	}
}

// quietAppend ends the Append that runs.
func (l *live) quietAppend(ctx context.Context) error {
	end, err := l.takeOver(ctx, func() {})
	if err == nil {
		end()
	}
	return err
}

func (l *live) tryAppend(mine *appending) (before *appending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before = l.appending; before == nil {
		l.appending = mine
	}
	return before
}

func (l *live) endAppend(mine *appending) {
	l.of.order.give(l.id, rankAppending)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appending = nil
	close(mine.done)
}

// Offset returns how far an upload has come. It ends a running Append of an open one first. One
// that has ended is only read: a gone one is not an error but has its state.
//
// Errors: NotFound, InProgress; Gone {reason} where the bytes of an open one were removed from
// outside.
func (s *Sessions) Offset(ctx context.Context, who drive.Who, id drive.UploadID) (Position, error) {
	return s.filler.position(ctx, who, id)
}

// position is Sessions.Offset.
func (s *filler) position(ctx context.Context, who drive.Who, id drive.UploadID) (Position, error) {
	row, err := findRow(ctx, s.db, id)
	if err == nil {
		_, err = s.table.gate.check(ctx, who, &row)
	}
	if err != nil {
		return Position{}, err
	}
	offset := max(0, row.Size)
	if row.State == Active || row.State == Parked {
		if row, offset, err = s.offset(ctx, who, id); err != nil {
			return Position{}, err
		}
	}
	h, err := findHead(ctx, s.db, id)
	return Position{
		Offset: offset, Size: row.Size, MaxSize: row.MaxSize(), State: row.State, ExpiresAt: s.sched.expires(row), Node: row.Node,
		Kind: h.Kind, Protocol: h.Protocol, Metadata: h.Metadata, Partials: h.Partials, Joined: row.Reason == ReasonJoined,
	}, err
}

// offset is Offset of an upload that was open just now.
func (s *filler) offset(ctx context.Context, who drive.Who, id drive.UploadID) (row Row, offset drive.ByteSize, err error) {
	l := s.table.enter(id)
	defer s.table.leave(l)
	end, err := l.takeOver(ctx, func() {}) // it does not last long
	if err != nil {
		return Row{}, 0, err
	}
	defer end()
	err = inTurn(ctx, s.table, id, func(l *live) (_ outcome, err error) {
		if row, err = s.table.loadFor(ctx, who, l); err != nil {
			return settled, err
		}
		if row.State != Active && row.State != Parked {
			offset = max(0, row.Size)
			return settled, nil
		}
		staged, err := s.trusted(ctx, l, row)
		if drive.IsKind(err, drive.NotFound) {
			return s.arrows.missing(ctx, l, row, err)
		}
		offset = row.prefix(staged.Parts, staged.Tails)
		return settled, err
	})
	if row.State == Active {
		row.Active = max(row.Active, s.now())
	}
	return row, offset, err
}

// trusted returns what is staged, without what a power loss has taken. The caller holds the turn.
func (s *filler) trusted(ctx context.Context, l *live, row Row) (blob.Staged, error) {
	staged, err := s.staging.Load(ctx, row.Ref())
	if err != nil || !staged.Suspect {
		return staged, err
	}
	if staged, err = s.staging.Verify(ctx, row.Ref(), row.Gen); err == nil && row.State == Active {
		l.forget()
	}
	return staged, err
}

// prefix returns how many bytes are there from the beginning without a gap.
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

// stand makes an upload ready to be filled and returns how far it has come. The caller has taken
// over; other instances are kept out if they write.
func (s *filler) stand(ctx context.Context, who drive.Who, l *live) (row Row, offset drive.ByteSize, err error) {
	err = attempts(func() (out outcome, err error) {
		at, ready, err := l.standing(who)
		row, offset = at.row, at.offset
		switch {
		case err != nil:
			return settled, err
		case !ready:
			return again, s.wake(ctx, who, l.id)
		case s.shared:
			offset, out, err = s.standShared(ctx, l, at)
		}
		return out, err
	})
	return row, offset, err
}

// stance is what memory says of an upload that is to be filled.
type stance struct {
	row     Row
	offset  drive.ByteSize
	writers int
}

// standing is what memory says; not ready when the upload must be woken first.
func (l *live) standing(who drive.Who) (at stance, ready bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	may := true
	if l.loaded {
		if may, err = l.mayLocked(who); err != nil {
			return stance{}, false, err
		}
	}
	switch {
	case l.shut == refusing:
		return stance{}, false, l.why
	case !l.ready() || !may:
		return stance{}, false, nil
	}
	return stance{l.row, l.offsetLocked(), len(l.writers)}, true, nil
}

// offsetLocked is prefix of what memory holds, without a look at every part that is behind.
func (l *live) offsetLocked() drive.ByteSize {
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

// standShared asks the staging what memory can only guess, and takes the upload from another
// instance that writes to it: its client is here now.
func (s *filler) standShared(ctx context.Context, l *live, at stance) (drive.ByteSize, outcome, error) {
	staged, err := s.staging.Load(ctx, at.row.Ref())
	switch {
	case drive.IsKind(err, drive.NotFound):
		out, err := s.receiver.vanished(ctx, l, at.row, err, false)
		return 0, out, err
	case err != nil:
		return 0, settled, err
	case staged.Writing > at.writers:
		l.refuse(at.row.Gen)
		return 0, again, nil
	}
	for _, p := range staged.Parts {
		l.learn(p, false)
	}
	for _, p := range staged.Tails {
		l.learn(p, true)
	}
	return at.row.prefix(staged.Parts, staged.Tails), settled, nil
}

// DeclareSize says how long the file is whose length was not known at first. The same again is no
// error.
//
// Errors: NotFound, Gone {reason}, WrongState {state}, TooLarge {limit, sent}, Quota, DiskFull,
// BadRequest {field size} (smaller than what has arrived, or another one was declared before).
func (s *Sessions) DeclareSize(ctx context.Context, who drive.Who, id drive.UploadID, size drive.ByteSize) error {
	return s.filler.declareSize(ctx, who, id, size)
}

// declareSize is Sessions.DeclareSize.
func (s *filler) declareSize(ctx context.Context, who drive.Who, id drive.UploadID, size drive.ByteSize) error {
	l := s.table.enter(id)
	defer s.table.leave(l)
	end, err := l.takeOver(ctx, func() {})
	if err != nil {
		return err
	}
	defer end()
	return s.declare(ctx, who, l, size)
}

// declare is DeclareSize for who has taken over.
func (s *filler) declare(ctx context.Context, who drive.Who, l *live, size drive.ByteSize) error {
	return attempts(func() (outcome, error) {
		row, offset, err := s.stand(ctx, who, l)
		if err != nil {
			return settled, err
		}
		switch {
		case row.Size == size:
			return settled, s.closeTail(ctx, who, l, row, size)
		case row.Size != blob.UnknownSize:
			return settled, drive.Bad("size", drive.NotAllowed, "allowed", []drive.ByteSize{row.Size}, "sent", size)
		case size < offset:
			return settled, drive.Bad("size", drive.OutOfRange, "min", offset, "max", row.MaxSize(), "sent", size)
		case size > row.MaxSize():
			return settled, drive.Fail(drive.TooLarge, "field", "size", "limit", row.MaxSize(), "sent", size)
		}
		return again, s.commitSize(ctx, who, l, row, size)
	})
}

// commitSize writes the length into the row, under a new gen: nobody goes on writing who believes
// that it is not known. It does nothing when the upload has moved on: the caller looks again in any
// case.
func (s *filler) commitSize(ctx context.Context, who drive.Who, l *live, was Row, size drive.ByteSize) error {
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	row, err := s.table.loadFor(ctx, who, l)
	if err != nil || row.Gen != was.Gen || row.State != Active {
		return err
	}
	more := max(0, size-row.Reserved)
	if err := s.receiver.disk.Reserve(ctx, row.Account, more); err != nil {
		return err
	}
	defer s.receiver.disk.Release(row.Account, more)
	l.pause()
	defer l.open()
	if err := l.drain(ctx, true); err != nil {
		return err
	}
	l.refuse(row.Gen)
	if _, err := s.staging.Fence(ctx, row.Ref(), row.Gen); err != nil {
		return err
	}
	next := row
	next.Size, next.Reserved = size, size
	next, out, err := s.arrows.commit(ctx, l, row, next, quota.Move{Reserved: size - row.Reserved})
	if err == nil && out == settled {
		s.sched.arm(ctx, next)
	}
	return err
}

// closeTail makes the last part of what is its tail, when the upload holds size bytes: that was not
// known when the last piece came. The caller has taken over.
func (s *filler) closeTail(ctx context.Context, who drive.Who, l *live, row Row, size drive.ByteSize) error {
	n, at := int(size/row.PartSize), size%row.PartSize
	l.mu.Lock()
	tail, ok := l.tails[n]
	l.mu.Unlock()
	if !ok || tail.Size != at {
		return nil
	}
	f := &filling{s: s, l: l, who: who, offset: size, partSize: row.PartSize, stop: func() {}}
	return attempts(func() (outcome, error) {
		_, out, err := f.extend(ctx, &piece{stopped: func() error { return nil }}, at)
		return out, err
	})
}

// endsInTail reports whether the last part is a tail still: its size was not known when its last
// bytes came.
func (r Row) endsInTail(staged blob.Staged) bool {
	n := int(r.Size / r.PartSize)
	return slices.ContainsFunc(staged.Tails, func(p blob.Part) bool { return p.N == n && p.Size == r.Size%r.PartSize })
}

// closeAt is closeTail for who has not taken over.
func (s *filler) closeAt(ctx context.Context, who drive.Who, l *live, size drive.ByteSize) error {
	end, err := l.takeOver(ctx, func() {})
	if err != nil {
		return err
	}
	defer end()
	row, _, err := s.stand(ctx, who, l)
	if err != nil {
		return err
	}
	return s.closeTail(ctx, who, l, row, size)
}
