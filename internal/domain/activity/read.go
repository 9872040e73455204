package activity

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// EventID returns a permanently unique name of the entry, even across restores: "<position>-<8
// hexadecimal digits>".
func (e Entry) EventID() string { return fmt.Sprintf("%d-%08x", e.ID, e.Salt) }

// ParseEventID returns the position in an event id; false if it is malformed. The caller compares
// the salt with the entry's.
func ParseEventID(s string) (Position, bool) {
	number, salt, ok := strings.Cut(s, "-")
	id, err := strconv.ParseInt(number, 10, 64)
	return Position(id), ok && err == nil && id > 0 && len(salt) == 8
}

// columns are the columns that scanEntry reads.
const columns = `id, salt, account_id, seq, at, verb, user_id, session_id, head, address, node_id, folder_id, name, data`

// scanEntry reads columns into e. An empty user, session, node or folder becomes the zero id. It
// fails if one is not an id.
func scanEntry(e *Entry, scan func(...any) error) error {
	var user, session, node, folder string
	err := scan(&e.ID, &e.Salt, &e.Account, &e.Seq, &e.At, &e.Verb, &user, &session, &e.By.Head, &e.By.Address, &node, &folder, &e.Name, (*[]byte)(&e.Data))
	if err != nil {
		return err
	}
	if e.By.User, err = parse[drive.UserID](user); err != nil {
		return err
	}
	if e.By.Session, err = parse[drive.SessionID](session); err != nil {
		return err
	}
	if e.Node, err = parse[drive.NodeID](node); err != nil {
		return err
	}
	e.Folder, err = parse[drive.NodeID](folder)
	return err
}

// parse parses an id written by text; "" is the zero id.
func parse[T ~[16]byte](s string) (id T, err error) {
	if s == "" {
		return id, nil
	}
	return drive.ParseID[T](s)
}

// ListBefore lists up to limit entries of an account before a position (zero: from the newest),
// newest first.
func (l *Log) ListBefore(ctx context.Context, q sqldb.Querier, account drive.AccountID, before Position, limit int) ([]Entry, error) {
	rows, err := q.Query(ctx, "SELECT "+columns+" FROM activity WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?",
		account, orTop(before), limit)
	all, err := sqldb.Scan(rows, err, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("list the activity of account %s: %w", account, err)
	}
	return all, nil
}

// ListBeforeAt lists up to limit entries about one node and its direct children that are before a
// position, newest first; zero: from the newest on. A node without entries yields an empty list.
func (l *Log) ListBeforeAt(ctx context.Context, q sqldb.Querier, node drive.NodeID, before Position, limit int) ([]Entry, error) {
	// A join, because for IN MariaDB checks every row against the union.
	rows, err := q.Query(ctx, "SELECT "+columns+` FROM (
			SELECT id AS found FROM (SELECT id FROM activity WHERE node_id = ? AND id < ? ORDER BY id DESC LIMIT ?) AS its
			UNION SELECT id FROM (SELECT id FROM activity WHERE folder_id = ? AND id < ? ORDER BY id DESC LIMIT ?) AS those) AS here
		JOIN activity ON activity.id = here.found ORDER BY id DESC LIMIT ?`, node.String(), orTop(before), limit, node.String(), orTop(before), limit, limit)
	all, err := sqldb.Scan(rows, err, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("list the activity at node %s: %w", node, err)
	}
	return all, nil
}

// ListAfter lists up to limit entries of an account after a position, oldest first.
func (l *Log) ListAfter(ctx context.Context, q sqldb.Querier, account drive.AccountID, after Position, limit int) ([]Entry, error) {
	rows, err := q.Query(ctx, "SELECT "+columns+" FROM activity WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?",
		account, int64(after), limit)
	all, err := sqldb.Scan(rows, err, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read what happened in account %s: %w", account, err)
	}
	return all, nil
}

// ListAfterAt lists up to limit entries about one node and its direct children after a position,
// oldest first.
func (l *Log) ListAfterAt(ctx context.Context, q sqldb.Querier, node drive.NodeID, after Position, limit int) ([]Entry, error) {
	rows, err := q.Query(ctx, "SELECT "+columns+` FROM (
			SELECT id AS found FROM (SELECT id FROM activity WHERE node_id = ? AND id > ? ORDER BY id LIMIT ?) AS its
			UNION SELECT id FROM (SELECT id FROM activity WHERE folder_id = ? AND id > ? ORDER BY id LIMIT ?) AS those) AS here
		JOIN activity ON activity.id = here.found ORDER BY id LIMIT ?`, node.String(), int64(after), limit, node.String(), int64(after), limit, limit)
	all, err := sqldb.Scan(rows, err, scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read what happened at node %s: %w", node, err)
	}
	return all, nil
}

// Find returns an entry of an account by event id. It fails with NotFound if the entry does not
// exist or has been purged.
func (l *Log) Find(ctx context.Context, q sqldb.Querier, account drive.AccountID, event string) (e Entry, err error) {
	id, ok := ParseEventID(event)
	if !ok {
		return e, drive.Fail(drive.NotFound)
	}
	err = scanEntry(&e, q.QueryRow(ctx, "SELECT "+columns+" FROM activity WHERE id = ?", int64(id)).Scan)
	if err == nil && (e.Account != account || e.EventID() != event) {
		err = drive.Fail(drive.NotFound)
	}
	return e, err
}

// Head returns the position of the newest entry of an account; zero: no entry.
func (l *Log) Head(ctx context.Context, q sqldb.Querier, account drive.AccountID) (head Position, err error) {
	err = q.QueryRow(ctx, "SELECT COALESCE(MAX(id), 0) FROM activity WHERE account_id = ?", account).Scan(&head)
	if err != nil {
		err = fmt.Errorf("read the newest entry of account %s: %w", account, err)
	}
	return head, err
}

// PositionBefore returns the position of an account's last entry before the given time; zero: none.
// It reads the entries after that time.
func (l *Log) PositionBefore(ctx context.Context, q sqldb.Querier, account drive.AccountID, moment drive.Time) (p Position, err error) {
	err = q.QueryRow(ctx, "SELECT id FROM activity WHERE account_id = ? AND at < ? ORDER BY id DESC LIMIT 1", account, moment).Scan(&p)
	if drive.IsKind(err, drive.NotFound) {
		return 0, nil
	}
	if err != nil {
		err = fmt.Errorf("look for what happened in account %s before %s: %w", account, moment, err)
	}
	return p, err
}

// top is the position from which a read of the newest entries begins.
const top = 1<<63 - 1

// orTop returns p, or the largest position if p is zero.
func orTop(p Position) int64 {
	if p == 0 {
		return top
	}
	return int64(p)
}
