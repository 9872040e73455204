package notice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// State is the state of a user's mail address.
type State string

// The states.
const (
	None      State = "none"      // no address
	Asked     State = "asked"     // a confirmation code was sent or is about to be
	Confirmed State = "confirmed" // the user entered the code; notices are mailed
	Refused   State = "refused"   // its mail server rejected several mails
)

// Preferences holds a user's notification settings and the state of mailing.
type Preferences struct {
	User        drive.UserID
	Address     string // mail address
	State       State
	Code        string     // code that confirms the address
	CodeExpires drive.Time // expiry of Code
	Tries       int        // wrong codes entered
	Codes       int        // codes requested since CodesSince
	CodesSince  drive.Time
	Language    string
	Channels    Choices

	MailDue      drive.Time // when the next mail is sent; zero: none is scheduled
	LastMail     drive.Time // when the last mail with notices was sent
	Failures     int        // consecutive failures
	FailingSince drive.Time
}

// personColumns are the columns that scanPerson reads.
const personColumns = `user_id, address, state, code, code_until, code_tries, codes, codes_since, language, channels, due_at, sent_at, failures,
	failing_since`

// scanPerson reads personColumns into p.
func scanPerson(p *Preferences, scan func(...any) error) error {
	var channels []byte
	err := scan(&p.User, &p.Address, &p.State, &p.Code, &p.CodeExpires, &p.Tries, &p.Codes, &p.CodesSince, &p.Language, &channels, &p.MailDue, &p.LastMail,
		&p.Failures, &p.FailingSince)
	if err != nil {
		return err
	}
	return json.Unmarshal(channels, &p.Channels)
}

// FindPreferences returns a user's settings. A user without a row, also an unknown one, has the
// defaults: no address, and English.
func (n *Notices) FindPreferences(ctx context.Context, q sqldb.Querier, user drive.UserID) (Preferences, error) {
	return findPerson(ctx, q, user, "")
}

// findPerson returns the preferences of a user and appends lock, "" or a locking clause, to the
// query. A user without a row gets the defaults, no address and English, and no error.
func findPerson(ctx context.Context, q sqldb.Querier, user drive.UserID, lock string) (p Preferences, err error) {
	err = scanPerson(&p, q.QueryRow(ctx, "SELECT "+personColumns+" FROM notice_people WHERE user_id = ?"+lock, user).Scan)
	if drive.IsKind(err, drive.NotFound) {
		return Preferences{User: user, State: None, Language: "en"}, nil
	}
	return p, wrap(err, "find how to tell", user)
}

// ChangePreferences reads a user's settings, calls change and stores the result. It locks the row,
// which serializes concurrent changes. An error from change is returned and nothing is stored.
func (n *Notices) ChangePreferences(ctx context.Context, tx *sqldb.Tx, user drive.UserID, change func(*Preferences) error) (p Preferences, err error) {
	if p, err = findPerson(ctx, tx, user, tx.ForUpdate()); err != nil {
		return p, err
	}
	if err := change(&p); err != nil {
		return p, err
	}
	channels, err := json.Marshal(p.Channels)
	if err != nil {
		return p, fmt.Errorf("encode the channels of user %s: %w", user, err)
	}
	values := []any{
		p.Address, p.State, p.Code, p.CodeExpires, p.Tries, p.Codes, p.CodesSince, p.Language, string(channels), p.MailDue, p.LastMail, p.Failures, p.FailingSince, n.now(),
	}
	changed, err := tx.Exec(ctx, `UPDATE notice_people SET address = ?, state = ?, code = ?, code_until = ?, code_tries = ?, codes = ?, codes_since = ?,
		language = ?, channels = ?, due_at = ?, sent_at = ?, failures = ?, failing_since = ?, updated_at = ? WHERE user_id = ?`, append(values, user)...)
	if err != nil || changed > 0 {
		return p, wrap(err, "change how to tell", user)
	}
	made, err := tx.InsertNew(ctx, `INSERT INTO notice_people (address, state, code, code_until, code_tries, codes, codes_since, language, channels,
		due_at, sent_at, failures, failing_since, updated_at, user_id) VALUES (`+sqldb.Placeholders(15)+")", append(values, user)...)
	if err == nil && !made {
		err = sqldb.Rerun(errConcurrentInsert)
	}
	return p, wrap(err, "keep how to tell", user)
}

// errConcurrentInsert makes a transaction retry: another one has inserted the row.
var errConcurrentInsert = errors.New("another request has made this row first")

// maxDelay exceeds every delay of a mail. A later due time was written by a clock that was ahead.
const maxDelay = 3 * time.Hour

// ListDue lists up to limit users whose mail is due: first those who wait for a code, then the
// longest waiting.
func (n *Notices) ListDue(ctx context.Context, limit int) (all []Preferences, err error) {
	now := n.now()
	for _, due := range []struct {
		from, to drive.Time
		which    string
	}{{1, now, "state = 'asked'"}, {1, now, "state <> 'asked'"}, {now.Add(maxDelay), math.MaxInt64, "state <> ''"}} {
		rows, err := n.opt.DB.Query(ctx, "SELECT "+personColumns+" FROM notice_people WHERE due_at > 0 AND due_at >= ? AND due_at <= ? AND "+due.which+
			" ORDER BY due_at LIMIT ?", due.from, due.to, limit-len(all))
		some, err := sqldb.Scan(rows, err, scanPerson)
		if err != nil {
			return nil, fmt.Errorf("look for mails that are due: %w", err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// ListUnmailed lists a user's notices that wait to be mailed, newest first.
func (n *Notices) ListUnmailed(ctx context.Context, q sqldb.Querier, user drive.UserID) ([]Notice, error) {
	rows, err := q.Query(ctx, "SELECT "+columns+" FROM notices WHERE user_id = ? AND mail = 1 ORDER BY id DESC LIMIT ?", user, MaxPerUser)
	all, err := sqldb.Scan(rows, err, scanNotice)
	return all, wrap(err, "list what is to be mailed to", user)
}

// MarkMailed marks the notices in all as mailed and reports whether the user has others that wait
// to be mailed, so that the caller can schedule the next mail. all may be empty.
func (n *Notices) MarkMailed(ctx context.Context, tx *sqldb.Tx, user drive.UserID, all []Notice) (more bool, err error) {
	if len(all) > 0 {
		ids := make([]ID, len(all))
		for i, one := range all {
			ids[i] = one.ID
		}
		marks, in := sqldb.ListArgs(ids)
		if _, err := tx.Exec(ctx, "UPDATE notices SET mail = 0 WHERE user_id = ? AND id IN ("+marks+")", append([]any{user}, in...)...); err != nil {
			return false, wrap(err, "record what was mailed to", user)
		}
	}
	var left int
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM notices WHERE user_id = ? AND mail = 1", user).Scan(&left)
	return left > 0, wrap(err, "count what is to be mailed to", user)
}

// Has reports whether a user has the notice with this id, read or not. The id is that of the cause,
// so true means that the cause has been handled for the user.
func (n *Notices) Has(ctx context.Context, q sqldb.Querier, user drive.UserID, id ID) (bool, error) {
	var there int
	err := q.QueryRow(ctx, "SELECT COUNT(*) FROM notices WHERE user_id = ? AND id = ?", user, id).Scan(&there)
	return there > 0, wrap(err, "look whether to tell", user)
}

// ScheduleMail schedules a mail to a user: after soon, but at least pause after the last one (or
// after now, if that has a time in the future). An earlier schedule stays. It always locks the
// user's row, so that a mail being sent is recorded after the notices that this transaction adds.
func (n *Notices) ScheduleMail(ctx context.Context, tx *sqldb.Tx, user drive.UserID, soon, pause time.Duration) error {
	now := n.now()
	at := now.Add(soon)
	_, err := tx.Exec(ctx, `UPDATE notice_people SET due_at = CASE WHEN due_at > 0 THEN due_at WHEN sent_at > ? THEN ? WHEN sent_at > ? THEN sent_at + ?
		ELSE ? END WHERE user_id = ?`, now, now.Add(pause), at.Add(-pause), pause.Milliseconds(), at, user)
	return wrap(err, "plan a mail to", user)
}
