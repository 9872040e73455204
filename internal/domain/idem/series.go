package idem

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// A series is a request for many items under one key that takes several transactions. Each
// transaction records its results, and a retry continues after them:
//
//	row of the key     body: number of the attempt that may continue
//	rows of the items  one per transaction, under the route "<route>/items" and a key made of the
//	                   series' key, the attempt and the first item; body: the results
//
// A retry takes over the series. The earlier attempt, which may still run after its client
// disconnected, then fails in its next transaction. So the retry has read all results.

// Series is one attempt at a request for many items under one key. A retry with the key is another
// attempt, which starts from the results of the earlier ones.
type Series struct {
	Done map[int]ItemResult // results of earlier attempts, by item

	k       *Keys
	req     Request
	items   Request // identifies the rows of the items
	attempt int64
}

// ItemHash is a hash of an item's request; a retry must send the same.
type ItemHash [16]byte

// ItemResult is the recorded result of an item: success or refusal. Refusals are recorded because
// later items could change the answer to a retry.
type ItemResult struct {
	Item    int
	Mark    ItemHash
	Created bool         // the item created a node
	Node    drive.NodeID // created or changed node; zero: none
	Refusal []byte       // refusal in the caller's encoding; empty: success
}

const attemptStatus = 202 // status of the row of a series that may continue

// OpenSeries starts an attempt and takes over the series from an earlier attempt. For the zero Key
// it returns nil: such a request cannot be repeated. It fails with KeyReused if the key was used
// for another request.
func (k *Keys) OpenSeries(ctx context.Context, req Request) (*Series, error) {
	if req.Key.IsZero() {
		return nil, nil
	}
	s := &Series{k: k, req: req.scoped()}
	err := k.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		s.Done = map[int]ItemResult{}
		born, err := s.beginAttempt(ctx, tx)
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

// beginAttempt inserts the row of the series, or increments the attempt of the existing row. It
// returns the start of the series, which identifies the rows of its items; rows of an expired
// series are not found.
func (s *Series) beginAttempt(ctx context.Context, tx *sqldb.Tx) (born drive.Time, err error) {
	now := s.k.now()
	s.attempt = 1
	fresh, err := tx.InsertNew(ctx, "INSERT INTO idempotency (user_id, method, route, `key`, fingerprint, status, body, created_at)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?)", append(s.req.key(), s.req.Fingerprint[:], attemptStatus, []byte("1"), now)...)
	switch {
	case sqldb.IsLockTimeout(err): // another attempt starts concurrently
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
	_, alive, err := row.response(s.req, now)
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
		append(append([]any{s.attemptText(), born}, s.req.key()...), row.body)...)
	if err == nil && n == 0 {
		err = sqldb.Rerun(errors.New("another attempt"))
	}
	return born, err
}

// attemptText returns the attempt as stored.
func (s *Series) attemptText() []byte { return []byte(strconv.FormatInt(s.attempt, 10)) }

// read sets s.items, under whose key the results of items are stored, and adds the results of
// earlier attempts to s.Done, by item; the first attempt reads nothing. It fails with errCorrupt if
// a row is damaged.
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

// Lock must be the first step of each transaction of an attempt. It fails with InProgress if
// another attempt has taken over; otherwise no attempt can take over until the transaction ends. It
// does nothing for a nil Series.
func (s *Series) Lock(ctx context.Context, tx *sqldb.Tx) error {
	if s == nil {
		return nil
	}
	var now []byte
	err := tx.QueryRow(ctx, "SELECT body FROM idempotency"+whereKey+tx.ForUpdate(), s.req.key()...).Scan(&now)
	switch {
	case err != nil:
		return fmt.Errorf("hold a series of %s: %w", s.req.Route, err)
	case string(now) != string(s.attemptText()):
		return drive.Fail(drive.InProgress, "retry_after", 1)
	}
	return nil
}

// Record records the results of a transaction and must be its last step. Each item occurs once in a
// series. It does nothing for a nil Series.
func (s *Series) Record(ctx context.Context, tx *sqldb.Tx, done []ItemResult) error {
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

// pack appends the encoding of d: item, 1 if created, mark, node id, length of the refusal,
// refusal.
func (d ItemResult) pack(to []byte) []byte {
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

// unpackDone decodes the first ItemResult of b and returns the rest of b. d.Refusal refers to b. It
// fails with errCorrupt if b is cut off or a length exceeds it.
func unpackDone(b []byte) (d ItemResult, rest []byte, err error) {
	item, n := binary.Uvarint(b)
	if n <= 0 || len(b) < n+1+len(d.Mark)+len(d.Node) {
		return ItemResult{}, nil, errCorrupt
	}
	d.Item, d.Created, b = int(item), b[n] == 1, b[n+1:]
	b = b[copy(d.Mark[:], b):]
	b = b[copy(d.Node[:], b):]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return ItemResult{}, nil, errCorrupt
	}
	d.Refusal, b = b[n:n+int(size)], b[n+int(size):]
	return d, b, nil
}

// errCorrupt reports invalid stored results.
var errCorrupt = errors.New("what a series has done cannot be read")
