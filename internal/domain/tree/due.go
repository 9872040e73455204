package tree

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// DueKind names what a due entry lists for permanent deletion.
type DueKind string

// The kinds of due entries.
const (
	DueTrash      DueKind = "trash"      // ID is an account: trashed nodes that no operation owns
	DueTombstones DueKind = "tombstones" // ID is an account
	DueVersions   DueKind = "versions"   // ID is a file: versions beyond the last KeepVersions
)

// Due is a due entry: an account or a file that has data to delete once its retention period ends.
type Due struct {
	Kind    DueKind
	ID      string // the account's or the file's
	Account drive.AccountID
	Since   drive.Time // start of the retention period of the oldest item, or earlier
}

// addDue inserts the row that d is due. If there is one for the same kind and id, which is older,
// that one stays.
func addDue(ctx context.Context, tx *sqldb.Tx, d Due) error {
	_, err := tx.InsertNew(ctx, "INSERT INTO due (kind, id, account_id, since) VALUES (?, ?, ?, ?)", d.Kind, d.ID, d.Account, d.Since)
	if err != nil {
		return fmt.Errorf("record %s of %s as due: %w", d.Kind, d.ID, err)
	}
	return nil
}

// addDueTrash adds a due entry for the trash of n's account if n is trashed and no operation owns
// it.
func (t *Tree) addDueTrash(ctx context.Context, tx *sqldb.Tx, n Node) error {
	if n.Trashed == 0 || !n.Operation.IsZero() {
		return nil
	}
	return addDue(ctx, tx, Due{DueTrash, n.Account.String(), n.Account, n.Trashed})
}

// addDueVersions inserts a due row for a file if it has a deletable version beyond the last
// KeepVersions; else it does nothing.
func (t *Tree) addDueVersions(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, node drive.NodeID) error {
	since, err := t.oldestDue(ctx, tx, DueVersions, node.String())
	if err != nil || since == 0 {
		return err
	}
	return addDue(ctx, tx, Due{DueVersions, node.String(), account, since})
}

// oldestDue returns when the oldest deletable item of an account or file began to wait; 0: there is
// none.
func (t *Tree) oldestDue(ctx context.Context, q sqldb.Querier, kind DueKind, id string) (since drive.Time, err error) {
	var query string
	args := []any{id}
	switch kind {
	case DueTrash:
		query = "SELECT trashed_at FROM nodes WHERE account_id = ? AND trashed_at > 0 AND operation_id IS NULL ORDER BY trashed_at LIMIT 1"
	case DueTombstones:
		query = "SELECT deleted_at FROM tombstones WHERE account_id = ? ORDER BY seq LIMIT 1"
	case DueVersions:
		query = "SELECT created_at FROM versions WHERE " + notKeptWhere + " ORDER BY id LIMIT 1"
		args = []any{id, id, t.opt.KeepVersions, id}
	}
	err = q.QueryRow(ctx, query, args...).Scan(&since)
	if drive.IsKind(err, drive.NotFound) {
		return 0, nil
	}
	return since, err
}

// Overdue selects due entries for ListDue.
type Overdue struct {
	Kind    DueKind
	Before  drive.Time      // entries whose Since is earlier
	Account drive.AccountID // zero: all accounts without a retention period of their own
}

// ListDue returns up to limit due entries that match of, oldest first, after the given entry (zero:
// from the first). An entry may be out of date and list nothing that old; see RefreshDue.
func (r Reader) ListDue(ctx context.Context, q sqldb.Querier, of Overdue, after Due, limit int) ([]Due, error) {
	whose, args := "", []any{of.Kind, after.Since, of.Before, after.Since, after.ID}
	switch days := periodColumns[of.Kind]; {
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

// periodColumns maps a kind to the column in which a space stores its own retention period in days;
// 0: the server's.
var periodColumns = map[DueKind]string{DueTrash: "trash_days", DueVersions: "version_days"}

// RetentionPeriod is an account's own retention period.
type RetentionPeriod struct {
	Account drive.AccountID
	Days    int64
}

// ListRetentionPeriods returns the spaces that have their own retention period for a kind.
func ListRetentionPeriods(ctx context.Context, q sqldb.Querier, kind DueKind) ([]RetentionPeriod, error) {
	days := periodColumns[kind]
	if days == "" {
		return nil, nil
	}
	rows, err := q.Query(ctx, "SELECT account_id, "+days+" FROM spaces WHERE "+days+" > 0")
	return sqldb.Scan(rows, err, func(k *RetentionPeriod, scan func(...any) error) error { return scan(&k.Account, &k.Days) })
}

// RefreshDue updates the due entry of a place after items were deleted, or deletes the entry if no
// item is left. The caller holds the lock on the account, so that no new item is missed.
func (t *Tree) RefreshDue(ctx context.Context, tx *sqldb.Tx, d Due) error {
	since, err := t.oldestDue(ctx, tx, d.Kind, d.ID)
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

// dueSurvey is the progress of the search for items without a due entry: those written by an older
// version, or before KeepVersions was reduced. It is stored in meta and starts again after 30 days.
type dueSurvey struct {
	Keep     int        `json:"keep"`               // KeepVersions of the current search
	Accounts bool       `json:"accounts,omitempty"` // all accounts are done; files follow
	After    string     `json:"after,omitempty"`    // last account, or file, that was searched
	Ended    drive.Time `json:"ended,omitempty"`    // when the search ended; zero: it is running
}

const (
	// surveyName is the row of meta that stores the progress of the survey.
	surveyName     = "due"
	surveyInterval = 30 * 24 * time.Hour // repeated, because an instance of an older version may have run beside this one and added no entries
)

// Survey does the next step of the search for items without a due entry and reports whether there
// is more. It may stop anywhere and may be repeated or run concurrently.
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
			if err := addDue(ctx, tx, d); err != nil {
				return err
			}
		}
		return saveSurvey(ctx, tx, s)
	})
}

// loadSurvey returns the progress of the survey; it is reset if the survey ended surveyInterval
// ago, and resumes at the files if KeepVersions was reduced.
func (t *Tree) loadSurvey(ctx context.Context, q sqldb.Querier) (s dueSurvey, err error) {
	s = dueSurvey{Keep: t.opt.KeepVersions}
	if err := meta.Load(ctx, q, surveyName, &s); err != nil {
		return s, fmt.Errorf("read the survey of what is due: %w", err)
	}
	if s.Ended > 0 && s.Ended.Add(surveyInterval) < t.retentionNow() {
		return dueSurvey{Keep: t.opt.KeepVersions}, nil
	}
	if s.Keep > t.opt.KeepVersions && s.Accounts {
		s.Ended, s.After = 0, ""
	}
	s.Keep = t.opt.KeepVersions
	return s, nil
}

// saveSurvey writes the progress of the survey to its row of meta; it takes effect when tx commits.
func saveSurvey(ctx context.Context, tx *sqldb.Tx, s dueSurvey) error {
	if err := meta.Save(ctx, tx, surveyName, s); err != nil {
		return fmt.Errorf("save the survey of what is due: %w", err)
	}
	return nil
}

// Bounds of one survey step.
const (
	accountsPerStep = 500
	filesPerStep    = 2000
)

// surveyAccounts returns the trash and tombstones that are due in the next accountsPerStep accounts
// after s.After, and changes s in place: After becomes the last account read. After the last
// account it sets s.Accounts and clears After, so that the survey continues with files. The caller
// must save s.
func (t *Tree) surveyAccounts(ctx context.Context, q sqldb.Querier, s *dueSurvey) (found []Due, err error) {
	rows, err := q.Query(ctx, "SELECT account_id FROM trees WHERE account_id > ? ORDER BY account_id LIMIT ?", s.After, accountsPerStep)
	accounts, err := sqldb.Scan(rows, err, func(id *drive.AccountID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		for _, kind := range []DueKind{DueTrash, DueTombstones} {
			since, err := t.oldestDue(ctx, q, kind, a.String())
			if err != nil {
				return nil, err
			}
			if since > 0 {
				found = append(found, Due{kind, a.String(), a, since})
			}
		}
		s.After = a.String()
	}
	if len(accounts) < accountsPerStep {
		s.Accounts, s.After = true, ""
	}
	return found, nil
}

// surveyFiles returns entries for those of the next filesPerStep files after s.After that have more
// than KeepVersions versions and a deletable one, and sets s.After to the last file read. After the
// last file it sets s.Ended. Files deleted in the meantime are skipped. The caller must save s.
func (t *Tree) surveyFiles(ctx context.Context, q sqldb.Querier, s *dueSurvey) (found []Due, err error) {
	rows, err := q.Query(ctx, `SELECT node_id, COUNT(*) FROM versions WHERE node_id > ? GROUP BY node_id ORDER BY node_id LIMIT ?`, s.After, filesPerStep)
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
		if d.Since, err = t.oldestDue(ctx, q, DueVersions, c.node); err == nil && d.Since > 0 {
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
	if len(files) < filesPerStep {
		s.Ended = t.retentionNow()
	}
	return found, nil
}
