package upload

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// wake is the step of a part that finds its upload asleep.
func wake(ctx context.Context, s *receiver, l *live, who drive.Who) error {
	return s.wake(ctx, who, l.id)
}

// makeRoom is grow for a part that has not begun: the part looks again in any case.
func (s *receiver) makeRoom(ctx context.Context, l *live, need drive.ByteSize) error {
	_, err := s.grow(ctx, l, need)
	return err
}

// grow enlarges the reservation of an upload whose size is not known, so that need bytes fit: in
// steps that double, cut to what is left. It is Quota only when need itself does not fit, and comes
// to nothing when the upload has changed. It does not take the turn, which somebody may hold who
// waits for the part that grows; change compares the reservation as well, so that no arrow
// overwrites a growth that it did not see.
func (s *receiver) grow(ctx context.Context, l *live, need drive.ByteSize) (outcome, error) {
	l.of.order.take(l.id, rankGrowing)
	defer l.of.order.give(l.id, rankGrowing)
	l.growing.Lock()
	defer l.growing.Unlock()
	l.mu.Lock()
	row, limit := l.row, l.limit
	l.mu.Unlock()
	if row.State != Active {
		return again, nil
	}
	if need <= limit {
		return settled, nil // somebody else was first
	}
	least := need - limit
	step := max(least, min(maxGrant, max(firstGrant, row.Reserved)))
	step, err := s.disk.ReserveSome(ctx, row.Account, step, least)
	if err != nil {
		return settled, err
	}
	defer s.disk.Release(row.Account, step) // then the live's own share counts
	granted, out, err := s.grant(ctx, row, step, least)
	if err != nil || out == again {
		if !drive.IsKind(err, drive.Quota) {
			l.forget() // what is reserved is not known
		}
		return out, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.row.Gen == row.Gen && (s.shared || l.row.Reserved == row.Reserved) { // else it was forgotten and read again meanwhile
		l.row.Reserved += granted
		l.limit += granted
		l.promiseLocked()
	}
	return settled, nil
}

func (s *receiver) grant(ctx context.Context, row Row, step, least drive.ByteSize) (granted drive.ByteSize, out outcome, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if granted, err = s.ledger.Grant(ctx, tx, row.Account, step, least); err != nil {
			return err
		}
		query, args := `UPDATE uploads SET reserved = reserved + ? WHERE id = ? AND state = ? AND gen = ?`, []any{granted, row.ID, Active, row.Gen}
		if !s.shared { // other instances add theirs
			query, args = query+` AND reserved = ?`, append(args, row.Reserved)
		}
		n, err := tx.Exec(ctx, query, args...)
		if err == nil && n == 0 {
			err = errLost
		}
		return err
	})
	out, err = unlessLost(err)
	return granted, out, err
}

// unlessStale is the refusal of a part that cannot be one of the upload's, unless the upload has
// moved on elsewhere: what it has become is what the client must hear.
func (s *receiver) unlessStale(ctx context.Context, l *live, err error) (outcome, error) {
	if !drive.IsKind(err, drive.PartRange) && !drive.IsKind(err, drive.PartSize) {
		return settled, err
	}
	l.mu.Lock()
	was := l.row
	l.mu.Unlock()
	if now, findErr := findRow(ctx, s.db, l.id); findErr != nil || now.Gen == was.Gen {
		return settled, err
	}
	l.forget()
	return again, nil
}

// there answers a part that the journal has already: by this instance before it forgot, or by
// another one. Nobody but the journal may say so, for another instance may have dropped it.
func (s *receiver) there(ctx context.Context, l *live, row Row, in *activity, body blob.Body, have blob.Part) (outcome, error) {
	if have.Unread { // what it holds nobody knows: take it as it comes now
		if err := s.staging.Drop(ctx, row.Ref(), row.Gen, have.N); err != nil {
			return s.notStaged(ctx, l, row, err, in.begun)
		}
		return repeat(in.begun)
	}
	l.learn(have, false)
	return settled, superseded(ctx, compare(body, have))
}

// repeat ends an attempt of a part: another one follows at once if nothing of its body was read,
// else the client must send it again.
func repeat(begun bool) (outcome, error) {
	if begun {
		return settled, comeAgain()
	}
	return again, nil
}

// vanished judges a staging that is not there for a part: the upload has ended meanwhile, or its
// bytes were removed from outside.
func (s *receiver) vanished(ctx context.Context, l *live, was Row, cause error, begun bool) (outcome, error) {
	l.forget()
	row, err := findRow(ctx, s.db, was.ID)
	switch {
	case err != nil:
		return settled, err
	case row.State != Active && row.State != Parked:
		return settled, row.ended()
	case row.Gen == was.Gen:
		return settled, drive.Wrap(cause, drive.Gone, "reason", ReasonLost)
	}
	return repeat(begun)
}
