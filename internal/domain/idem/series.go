package idem

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// A series is a request of many items under one key, which happens in several transactions. What
// was done is written down by each of them, and a repeat goes on behind it:
//
//	row of the key     body: the number of the attempt that may go on
//	rows of its items  one for each transaction, under the route "<route>/items" and a key that
//	                   is made of the first one, of the attempt and of the first item; body: what
//	                   was done
//
// A repeat takes the series over: the attempt before it, which may still run because its client has
// gone without a word, fails in its next transaction. So a repeat that has read what was done has
// read all of it.

// Series is an attempt at a request of many items.
type Series struct {
	Done map[int]Done // what attempts before this one have done, by item

	k       *Keys
	req     Request
	items   Request // under which rows of items are
	attempt int64
}

// Mark is made of what an item asks for: a repeat must ask for the same.
type Mark [16]byte

// Done is an item that was decided: done, or refused. A refusal is kept, too: asked for once more,
// behind items that came after it, the item might be answered otherwise.
type Done struct {
	Item    int
	Mark    Mark
	Created bool
	Node    drive.NodeID // that it made or changed; zero: none
	Refusal []byte       // in the caller's words; empty: it was done
}

const attemptStatus = 202 // of the row of a series: it may go on

// OpenSeries begins an attempt, and takes the series over from one that went before. The zero Key
// is a series that nobody can repeat: nil. KeyReused when the key was used for something else.
func (k *Keys) OpenSeries(ctx context.Context, req Request) (*Series, error) {
	if req.Key.IsZero() {
		return nil, nil
	}
	s := &Series{k: k, req: req.scoped()}
	err := k.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		s.Done = map[int]Done{}
		born, err := s.enter(ctx, tx)
		if err != nil {
			return err
		}
		return s.read(ctx, tx, born)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// enter makes the row, or takes the next attempt of the one that is there. It returns when the
// series began, by which its items are found: those of one that has ended are nobody's.
func (s *Series) enter(ctx context.Context, tx *sqldb.Tx) (born drive.Time, err error) {
	now := s.k.now()
	s.attempt = 1
	fresh, err := tx.InsertNew(ctx, "INSERT INTO idempotency (user_id, method, route, `key`, fingerprint, status, body, created_at)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?)", append(s.req.key(), s.req.Fingerprint[:], attemptStatus, []byte("1"), now)...)
	switch {
	case sqldb.IsLockTimeout(err): // another attempt begins
		return 0, drive.Fail(drive.InProgress, "retry_after", 1)
	case err != nil:
		return 0, fmt.Errorf("begin a series of %s: %w", s.req.Route, err)
	case fresh:
		return now, nil
	}
	row, err := s.k.find(ctx, tx, s.req)
	if err != nil {
		return 0, err
	}
	_, alive, err := row.answer(s.req, now)
	if err != nil {
		return 0, err
	}
	if born = row.createdAt; !alive {
		born = now
	}
	if s.attempt, err = strconv.ParseInt(string(row.body), 10, 64); err != nil {
		return 0, drive.Wrap(err, drive.KeyReused)
	}
	s.attempt++
	n, err := tx.Exec(ctx, "UPDATE idempotency SET body = ?, created_at = ?"+whereKey+" AND body = ?",
		append(append([]any{s.text(), born}, s.req.key()...), row.body)...)
	if err == nil && n == 0 {
		err = sqldb.Again(errors.New("another attempt"))
	}
	return born, err
}

func (s *Series) text() []byte { return []byte(strconv.FormatInt(s.attempt, 10)) }

func (s *Series) read(ctx context.Context, tx *sqldb.Tx, born drive.Time) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", born, s.req.Key.text))
	s.items = s.req
	s.items.Route += "/items"
	s.items.Key.text = hex.EncodeToString(sum[:16])
	if s.attempt == 1 {
		return nil
	}
	rows, err := tx.Query(ctx, "SELECT body FROM idempotency WHERE user_id = ? AND method = ? AND route = ? AND `key` >= ? AND `key` < ?",
		s.items.User, s.items.Method, s.items.Route, s.items.Key.text+"-", s.items.Key.text+".")
	all, err := sqldb.Scan(rows, err, func(b *[]byte, scan func(...any) error) error { return scan(b) })
	if err != nil {
		return fmt.Errorf("read what a series of %s has done: %w", s.req.Route, err)
	}
	for _, packed := range all {
		for len(packed) > 0 {
			d, rest, err := unpackDone(packed)
			if err != nil {
				return err
			}
			s.Done[d.Item], packed = d, rest
		}
	}
	return nil
}

// Hold is the first step of each transaction of an attempt. InProgress when another attempt has
// taken over; else none will until the transaction has ended. A nil Series has nobody to hold off.
func (s *Series) Hold(ctx context.Context, tx *sqldb.Tx) error {
	if s == nil {
		return nil
	}
	var now []byte
	err := tx.QueryRow(ctx, "SELECT body FROM idempotency"+whereKey+tx.ForUpdate(), s.req.key()...).Scan(&now)
	switch {
	case err != nil:
		return fmt.Errorf("hold a series of %s: %w", s.req.Route, err)
	case string(now) != string(s.text()):
		return drive.Fail(drive.InProgress, "retry_after", 1)
	}
	return nil
}

// Keep writes down what a transaction has done, as its last step. An item occurs once in a series.
func (s *Series) Keep(ctx context.Context, tx *sqldb.Tx, done []Done) error {
	if s == nil || len(done) == 0 {
		return nil
	}
	var packed []byte
	for _, d := range done {
		packed = d.pack(packed)
	}
	row := s.items
	row.Key.text = fmt.Sprintf("%s-%d-%d", row.Key.text, s.attempt, done[0].Item)
	_, err := tx.Exec(ctx, "INSERT INTO idempotency (user_id, method, route, `key`, fingerprint, status, body, created_at)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?)", append(row.key(), s.req.Fingerprint[:], attemptStatus, packed, s.k.now())...)
	if err != nil {
		return fmt.Errorf("keep what a series of %s has done: %w", s.req.Route, err)
	}
	return nil
}

// pack appends a Done: the item, 1 if something was created, the mark, the id, the length of the
// refusal and the refusal.
func (d Done) pack(to []byte) []byte {
	to = binary.AppendUvarint(to, uint64(d.Item))
	created := byte(0)
	if d.Created {
		created = 1
	}
	to = append(to, created)
	to = append(to, d.Mark[:]...)
	to = append(to, d.Node[:]...)
	to = binary.AppendUvarint(to, uint64(len(d.Refusal)))
	return append(to, d.Refusal...)
}

func unpackDone(b []byte) (d Done, rest []byte, err error) {
	item, n := binary.Uvarint(b)
	if n <= 0 || len(b) < n+1+len(d.Mark)+len(d.Node) {
		return Done{}, nil, errUnreadable
	}
	d.Item, d.Created, b = int(item), b[n] == 1, b[n+1:]
	b = b[copy(d.Mark[:], b):]
	b = b[copy(d.Node[:], b):]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return Done{}, nil, errUnreadable
	}
	d.Refusal, b = b[n:n+int(size)], b[n+int(size):]
	return d, b, nil
}

var errUnreadable = errors.New("what a series has done cannot be read")
