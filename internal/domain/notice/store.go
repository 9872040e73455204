package notice

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	// MaxPerUser bounds the notices of a user, so that others cannot fill the database.
	MaxPerUser = 1000
	// Retention is how long a notice is kept.
	Retention = 90 * 24 * time.Hour

	maxPerMaker   = MaxPerUser / 10 // if a user has too many notices and one maker caused more than this, that maker's are deleted first
	replaceWindow = time.Hour       // repeated events on one subject within it become one notice
	purgeBatch    = 500             // rows per transaction
)

// Options configures New. DB is required; the zero value of each other field selects its default.
type Options struct {
	DB *sqldb.DB
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// RetentionClock is the clock that retention periods are measured with. Default: Now.
	RetentionClock func() time.Time
}

// Notices stores notices. It is safe for concurrent use.
type Notices struct{ opt Options }

// New returns the Notices configured by opt.
func New(opt Options) *Notices {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.RetentionClock == nil {
		opt.RetentionClock = opt.Now
	}
	return &Notices{opt}
}

// now returns the time that new notices get, from Options.Now.
func (n *Notices) now() drive.Time { return drive.TimeOf(n.opt.Now()) }

// Notice is the notification of one user about one cause.
type Notice struct {
	User drive.UserID
	ID   ID
	Cause
	At   drive.Time
	Read drive.Time // zero: unread
	Mail bool       // waits to be mailed
}

// columns are the columns that scanNotice reads.
const columns = "user_id, id, kind, what, account_id, node_id, by_id, data, at, read_at, mail"

// scanNotice reads columns into n. An empty node or actor becomes the zero id. It fails if one is
// not an id or the data is not JSON.
func scanNotice(n *Notice, scan func(...any) error) error {
	var node, by string
	var data []byte
	err := scan(&n.User, &n.ID, &n.Kind, &n.What, &n.Account, &node, &by, &data, &n.At, &n.Read, &n.Mail)
	if err != nil {
		return err
	}
	if n.Node, err = parse[drive.NodeID](node); err != nil {
		return err
	}
	if n.By, err = parse[drive.UserID](by); err != nil {
		return err
	}
	return json.Unmarshal(data, &n.Data)
}

// text returns the text of an id; "" if it is zero.
func text[T interface {
	IsZero() bool
	String() string
}](id T) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// parse parses an id written by text; "" is the zero id.
func parse[T ~[16]byte](s string) (id T, err error) {
	if s == "" {
		return id, nil
	}
	return drive.ParseID[T](s)
}

// Add inserts a notice. made is false if the user already has it (E4). If the user then has more
// than MaxPerUser, it deletes one (E5): the oldest by the user who caused most, if they caused more
// than maxPerMaker, else the oldest of all. If that is the new one, made is false, too.
func (n *Notices) Add(ctx context.Context, tx *sqldb.Tx, one Notice) (made bool, err error) {
	data, err := json.Marshal(one.Data)
	if err != nil {
		return false, fmt.Errorf("encode the data of a notice: %w", err)
	}
	made, err = tx.InsertNew(ctx, "INSERT INTO notices ("+columns+") VALUES ("+sqldb.Placeholders(11)+")", one.User, one.ID, string(one.Kind),
		string(one.What), one.Account, text(one.Node), text(one.By), string(data), n.now(), drive.Time(0), one.Mail)
	if err != nil || !made {
		return false, wrap(err, "tell", one.User)
	}
	last, err := excessNotice(ctx, tx, one.User)
	if err == nil && !last.IsZero() {
		_, err = tx.Exec(ctx, "DELETE FROM notices WHERE user_id = ? AND id = ?", one.User, last)
	}
	return last != one.ID, wrap(err, "drop the oldest notice of", one.User)
}

// excessNotice returns the notice that must be deleted if the user has more than MaxPerUser: the
// oldest of the actor with the most notices, if above maxPerMaker, else the oldest beyond the
// limit. Zero: none.
func excessNotice(ctx context.Context, tx *sqldb.Tx, user drive.UserID) (last ID, err error) {
	err = tx.QueryRow(ctx, "SELECT id FROM notices WHERE user_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?", user, MaxPerUser).Scan(&last)
	if drive.IsKind(err, drive.NotFound) {
		return ID{}, nil
	}
	if err != nil {
		return ID{}, err
	}
	var first ID
	err = tx.QueryRow(ctx, `SELECT MIN(id) FROM notices WHERE user_id = ? AND by_id <> '' GROUP BY by_id HAVING COUNT(*) > ?
		ORDER BY COUNT(*) DESC LIMIT 1`, user, maxPerMaker).Scan(&first)
	if drive.IsKind(err, drive.NotFound) {
		return last, nil
	}
	return first, err
}

// Replace updates an unread notice of the same user, kind, event and node from the hour before to
// the new cause. done is false if there is none; then the caller adds the notice. done is also true
// if a later one exists.
func (n *Notices) Replace(ctx context.Context, tx *sqldb.Tx, one Notice) (done bool, err error) {
	var have ID
	var read drive.Time
	err = tx.QueryRow(ctx, `SELECT id, read_at FROM notices WHERE user_id = ? AND id >= ? AND node_id = ? AND kind = ? AND what = ?
		ORDER BY id DESC LIMIT 1`, one.User, lowestIDWithin(one.ID, replaceWindow), text(one.Node), string(one.Kind), string(one.What)).Scan(&have, &read)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return false, nil
	case err != nil:
		return false, wrap(err, "look what was told to", one.User)
	case have.String() >= one.ID.String():
		return true, nil
	case read != 0:
		return false, nil
	}
	data, err := json.Marshal(one.Data)
	if err != nil {
		return false, fmt.Errorf("encode the data of a notice: %w", err)
	}
	_, err = tx.Exec(ctx, "UPDATE notices SET id = ?, by_id = ?, data = ?, at = ? WHERE user_id = ? AND id = ?",
		one.ID, text(one.By), string(data), n.now(), one.User, have)
	return err == nil, wrap(err, "tell", one.User)
}

// wrap adds what was attempted, and for which user, to err; nil stays nil.
func wrap(err error, what string, user drive.UserID) error {
	if err != nil {
		return fmt.Errorf("%s user %s: %w", what, user, err)
	}
	return nil
}

// List lists up to limit notices of a user older than before (zero: from the newest), newest first.
// With unread it lists unread ones only.
func (n *Notices) List(ctx context.Context, q sqldb.Querier, user drive.UserID, before ID, limit int, unread bool) ([]Notice, error) {
	last := "g" // greater than every id
	if !before.IsZero() {
		last = before.String()
	}
	rows, err := q.Query(ctx, "SELECT "+columns+` FROM notices WHERE user_id = ? AND id < ? AND (? = 0 OR read_at = 0)
		ORDER BY id DESC LIMIT ?`, user, last, unread, limit)
	all, err := sqldb.Scan(rows, err, scanNotice)
	return all, wrap(err, "list the notices of", user)
}

// Unread returns the number of a user's unread notices.
func (n *Notices) Unread(ctx context.Context, q sqldb.Querier, user drive.UserID) (count int, err error) {
	err = q.QueryRow(ctx, "SELECT COUNT(*) FROM notices WHERE user_id = ? AND read_at = 0", user).Scan(&count)
	return count, wrap(err, "count the notices of", user)
}

// MarkRead marks notices of a user as read. Missing ones and those already read are ignored.
func (n *Notices) MarkRead(ctx context.Context, tx *sqldb.Tx, user drive.UserID, ids []ID) error {
	if len(ids) == 0 {
		return nil
	}
	marks, in := sqldb.ListArgs(ids)
	_, err := tx.Exec(ctx, "UPDATE notices SET read_at = ? WHERE user_id = ? AND id IN ("+marks+") AND read_at = 0",
		append([]any{n.now(), user}, in...)...)
	return wrap(err, "record what was read by", user)
}

// MarkReadUpTo marks a notice of a user and all older ones as read.
func (n *Notices) MarkReadUpTo(ctx context.Context, tx *sqldb.Tx, user drive.UserID, last ID) error {
	_, err := tx.Exec(ctx, "UPDATE notices SET read_at = ? WHERE user_id = ? AND id <= ? AND read_at = 0", n.now(), user, last)
	return wrap(err, "record what was read by", user)
}

// Purge deletes notices older than Retention, read or not. Each transaction selects purgeBatch of
// them and deletes all old notices of their users. After an error it may be called again.
func (n *Notices) Purge(ctx context.Context) error {
	before := drive.TimeOf(n.opt.RetentionClock().Add(-Retention))
	for dropped := int64(purgeBatch); dropped >= purgeBatch; {
		err := n.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			dropped, err = tx.DeleteBatch(ctx, sqldb.Batch{Table: "notices", Key: "user_id", Where: "at < ?", Order: "at", Args: []any{before}, Limit: purgeBatch})
			return err
		})
		if err != nil {
			return fmt.Errorf("purge the notices: %w", err)
		}
	}
	return nil
}

// DeleteUser deletes a user's notices and preferences for being notified, the mail address
// included.
func (n *Notices) DeleteUser(ctx context.Context, tx *sqldb.Tx, user drive.UserID) error {
	for _, table := range []string{"notices", "notice_people"} {
		if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE user_id = ?", user); err != nil {
			return fmt.Errorf("forget the %s of user %s: %w", table, user, err)
		}
	}
	return nil
}
