package tree

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// DueKind says what waits to be deleted for good.
type DueKind string

// The kinds.
const (
	DueTrash      DueKind = "trash"      // of an account: trashed nodes that no operation owns
	DueTombstones DueKind = "tombstones" // of an account
	DueVersions   DueKind = "versions"   // of a file: versions beyond the last KeepVersions
)

// Due is one place where something waits.
type Due struct {
	Kind    DueKind
	ID      string // the account's, or the file's
	Account drive.AccountID
	Since   drive.Time // for how long at most
}

// note remembers that something begins to wait. What is remembered of the same place already is
// older, and stays.
func note(ctx context.Context, tx *sqldb.Tx, d Due) error {
	_, err := tx.InsertNew(ctx, "INSERT INTO due (kind, id, account_id, since) VALUES (?, ?, ?, ?)", d.Kind, d.ID, d.Account, d.Since)
	if err != nil {
		return fmt.Errorf("note %s of %s as due: %w", d.Kind, d.ID, err)
	}
	return nil
}

func (t *Tree) noteTrash(ctx context.Context, tx *sqldb.Tx, n Node) error {
	if n.Trashed == 0 || !n.Operation.IsZero() {
		return nil
	}
	return note(ctx, tx, Due{DueTrash, n.Account.String(), n.Account, n.Trashed})
}

func (t *Tree) noteVersions(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, node drive.NodeID) error {
	since, err := t.oldest(ctx, tx, DueVersions, node.String())
	if err != nil || since == 0 {
		return err
	}
	return note(ctx, tx, Due{DueVersions, node.String(), account, since})
}

// oldest returns since when the oldest thing of a place waits; 0: nothing does.
func (t *Tree) oldest(ctx context.Context, q sqldb.Querier, kind DueKind, id string) (since drive.Time, err error) {
	var query string
	args := []any{id}
	switch kind {
	case DueTrash:
		query = "SELECT trashed_at FROM nodes WHERE account_id = ? AND trashed_at > 0 AND operation_id IS NULL ORDER BY trashed_at LIMIT 1"
	case DueTombstones:
		query = "SELECT deleted_at FROM tombstones WHERE account_id = ? ORDER BY seq LIMIT 1"
	case DueVersions:
		query = "SELECT created_at FROM versions WHERE " + beyondLast + " ORDER BY id LIMIT 1"
		args = []any{id, id, t.opt.KeepVersions, id}
	}
	err = q.QueryRow(ctx, query, args...).Scan(&since)
	if drive.IsKind(err, drive.NotFound) {
		return 0, nil
	}
	return since, err
}

// Overdue is what has waited since before a moment.
type Overdue struct {
	Kind    DueKind
	Before  drive.Time
	Account drive.AccountID // zero: of all that keep it as long as the server does
}

// ListDue returns up to limit places where something is overdue, the longest first, after the one
// given (the zero Due: from the first). A place may turn out to hold nothing of that age: see
// Settle.
func (r Reader) ListDue(ctx context.Context, q sqldb.Querier, of Overdue, after Due, limit int) ([]Due, error) {
	whose, args := "", []any{of.Kind, after.Since, of.Before, after.Since, after.ID}
	switch days := ownDays[of.Kind]; {
	case !of.Account.IsZero():
		whose, args = " AND account_id = ?", append(args, of.Account)
	case days != "":
		whose = " AND NOT EXISTS (SELECT 1 FROM spaces s WHERE s.account_id = due.account_id AND s." + days + " > 0)"
	}
	rows, err := q.Query(ctx, `SELECT kind, id, account_id, since FROM due WHERE kind = ? AND since >= ? AND since < ?
		AND (since > ? OR id > ?)`+whose+` ORDER BY since, id LIMIT ?`, append(args, limit)...)
	return sqldb.Scan(rows, err, func(d *Due, scan func(...any) error) error {
		return scan(&d.Kind, &d.ID, &d.Account, &d.Since)
	})
}

// ownDays is where a space says for how many days it keeps what waits.
var ownDays = map[DueKind]string{DueTrash: "trash_days", DueVersions: "version_days"}

// Keeping is for how long an account keeps what waits.
type Keeping struct {
	Account drive.AccountID
	Days    int64
}

// ListKeeping lists the spaces that keep what waits for a time of their own.
func ListKeeping(ctx context.Context, q sqldb.Querier, kind DueKind) ([]Keeping, error) {
	days := ownDays[kind]
	if days == "" {
		return nil, nil
	}
	rows, err := q.Query(ctx, "SELECT account_id, "+days+" FROM spaces WHERE "+days+" > 0")
	return sqldb.Scan(rows, err, func(k *Keeping, scan func(...any) error) error { return scan(&k.Account, &k.Days) })
}

// Settle writes down since when something of the place waits now, or that nothing does any more.
// The caller holds the lock on the account: what begins to wait meanwhile is seen.
func (t *Tree) Settle(ctx context.Context, tx *sqldb.Tx, d Due) error {
	since, err := t.oldest(ctx, tx, d.Kind, d.ID)
	switch {
	case err != nil:
	case since == 0:
		_, err = tx.Exec(ctx, "DELETE FROM due WHERE kind = ? AND id = ?", d.Kind, d.ID)
	case since != d.Since:
		_, err = tx.Exec(ctx, "UPDATE due SET since = ? WHERE kind = ? AND id = ?", since, d.Kind, d.ID)
	}
	if err != nil {
		return fmt.Errorf("settle what is due of %s: %w", d.ID, err)
	}
	return nil
}

// survey is how far the search for what waits and was not noted has come: in a database of an older
// version, or when fewer versions are kept than before. It is kept in meta, and starts again
// after a month.
type survey struct {
	Keep     int        `json:"keep"`               // KeepVersions that it is made for
	Accounts bool       `json:"accounts,omitempty"` // it is through all accounts
	After    string     `json:"after,omitempty"`    // the last one looked at: an account, then a file
	Ended    drive.Time `json:"ended,omitempty"`    // when it was through all files, too
}

const (
	surveyName  = "due"
	surveyAgain = 30 * 24 * time.Hour // for what nobody has noted: an instance of an older version may have run beside this one
)

// Survey does the next step of the search for what waits and is not noted yet, and reports whether
// there is more. It may end anywhere, be repeated, and run several times at once.
func (t *Tree) Survey(ctx context.Context, db *sqldb.DB) (more bool, err error) {
	s, err := t.loadSurvey(ctx, db)
	if err != nil || s.Ended > 0 {
		return false, err
	}
	var found []Due
	if s.Accounts {
		found, err = t.surveyFiles(ctx, db, &s)
	} else {
		found, err = t.surveyAccounts(ctx, db, &s)
	}
	if err != nil {
		return false, fmt.Errorf("survey what is due: %w", err)
	}
	return s.Ended == 0, db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, d := range found {
			if err := note(ctx, tx, d); err != nil {
				return err
			}
		}
		return saveSurvey(ctx, tx, s)
	})
}

func (t *Tree) loadSurvey(ctx context.Context, q sqldb.Querier) (s survey, err error) {
	s = survey{Keep: t.opt.KeepVersions}
	if err := meta.Load(ctx, q, surveyName, &s); err != nil {
		return s, fmt.Errorf("read the survey of what is due: %w", err)
	}
	if s.Ended > 0 && s.Ended.Add(surveyAgain) < t.kept() {
		return survey{Keep: t.opt.KeepVersions}, nil
	}
	if s.Keep > t.opt.KeepVersions && s.Accounts {
		s.Ended, s.After = 0, ""
	}
	s.Keep = t.opt.KeepVersions
	return s, nil
}

func saveSurvey(ctx context.Context, tx *sqldb.Tx, s survey) error {
	if err := meta.Save(ctx, tx, surveyName, s); err != nil {
		return fmt.Errorf("save the survey of what is due: %w", err)
	}
	return nil
}

// How much one step of the survey looks at.
const (
	surveyedAccounts = 500
	surveyedFiles    = 2000
)

// surveyAccounts looks at the next accounts.
func (t *Tree) surveyAccounts(ctx context.Context, q sqldb.Querier, s *survey) (found []Due, err error) {
	rows, err := q.Query(ctx, "SELECT account_id FROM trees WHERE account_id > ? ORDER BY account_id LIMIT ?", s.After, surveyedAccounts)
	accounts, err := sqldb.Scan(rows, err, func(id *drive.AccountID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		for _, kind := range []DueKind{DueTrash, DueTombstones} {
			since, err := t.oldest(ctx, q, kind, a.String())
			if err != nil {
				return nil, err
			}
			if since > 0 {
				found = append(found, Due{kind, a.String(), a, since})
			}
		}
		s.After = a.String()
	}
	if len(accounts) < surveyedAccounts {
		s.Accounts, s.After = true, ""
	}
	return found, nil
}

// surveyFiles counts the versions of the next files.
func (t *Tree) surveyFiles(ctx context.Context, q sqldb.Querier, s *survey) (found []Due, err error) {
	rows, err := q.Query(ctx, `SELECT node_id, COUNT(*) FROM versions WHERE node_id > ? GROUP BY node_id ORDER BY node_id LIMIT ?`, s.After, surveyedFiles)
	type count struct {
		node string
		n    int
	}
	files, err := sqldb.Scan(rows, err, func(c *count, scan func(...any) error) error { return scan(&c.node, &c.n) })
	if err != nil {
		return nil, err
	}
	for _, c := range files {
		s.After = c.node
		if c.n <= t.opt.KeepVersions {
			continue
		}
		d := Due{Kind: DueVersions, ID: c.node}
		if d.Since, err = t.oldest(ctx, q, DueVersions, c.node); err == nil && d.Since > 0 {
			err = q.QueryRow(ctx, "SELECT account_id FROM nodes WHERE id = ?", c.node).Scan(&d.Account)
		}
		switch {
		case drive.IsKind(err, drive.NotFound): // deleted just now
		case err != nil:
			return nil, err
		case d.Since > 0:
			found = append(found, d)
		}
	}
	if len(files) < surveyedFiles {
		s.Ended = t.kept()
	}
	return found, nil
}
