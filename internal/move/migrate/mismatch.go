package migrate

import (
	"context"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// maxNoted limits the stored rows of a comparison and the unexplained reads. The count of a
// comparison includes all differing rows.
const maxNoted = 200

// noteMismatch stores a read that both sides answer differently. The same query is not stored again
// until it is explained.
func (m *matcher) noteMismatch(ctx context.Context, v *snapshot, x Mismatch) error {
	return m.storeMismatch(ctx, v, x, func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		var all, same int64
		err := tx.QueryRow(ctx, "SELECT COUNT(*), COALESCE(SUM(subject = ?), 0) FROM migration_mismatches WHERE migration = ? AND source = ? AND explained = 0",
			x.Subject, v.Migration, x.Source).Scan(&all, &same)
		return all < maxNoted && same == 0, err
	})
}

// noteRowMismatch stores and logs a row found by a full comparison, and counts it in the comparison
// in the same transaction.
func (m *matcher) noteRowMismatch(ctx context.Context, v *snapshot, comparison string, x Mismatch) error {
	return m.storeMismatch(ctx, v, x, func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		return true, countUnequal(ctx, tx, comparison, 1)
	})
}

// countUnequal adds n, within tx, to the stored number of unequal rows of a comparison. If the
// comparison is not running any more it does nothing.
func countUnequal(ctx context.Context, tx *sqldb.Tx, comparison string, n int64) error {
	_, err := tx.Exec(ctx, "UPDATE migration_checksums SET unequal = unequal + ? WHERE id = ? AND state = 'running'", n, comparison)
	return err
}

// storeMismatch stores and logs a mismatch if wanted, which runs in the same transaction, reports
// true.
func (m *matcher) storeMismatch(ctx context.Context, v *snapshot, x Mismatch, wanted func(ctx context.Context, tx *sqldb.Tx) (bool, error)) error {
	now, err := v.primary.DB.Now(ctx)
	if err != nil {
		return err
	}
	stored := false
	err = v.primary.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if stored, err = wanted(ctx, tx); err != nil || !stored {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO migration_mismatches (migration, source, subject, ours, theirs, found_at) VALUES (?, ?, ?, ?, ?, ?)",
			v.Migration, x.Source, x.Subject, truncateValue(x.Ours), truncateValue(x.Theirs), now)
		return err
	})
	if err == nil && stored {
		m.log.WarnContext(ctx, "the two sides of the migration differ; explain or repair the mismatch before the next phase", "source", x.Source, "subject", x.Subject)
	}
	return err
}

// Mismatches returns up to limit mismatches, newest first, explained ones too.
func (m *Migration) Mismatches(ctx context.Context, limit int) ([]Mismatch, error) {
	return listMismatches(ctx, m.opt.DB, "ORDER BY m.id DESC LIMIT ?", limit)
}

// listMismatches returns the mismatches that rest selects: the end of the statement after the
// tables m (mismatches) and e (explanations).
func listMismatches(ctx context.Context, q sqldb.Querier, rest string, args ...any) ([]Mismatch, error) {
	rows, err := q.Query(ctx, `SELECT m.id, m.source, m.subject, m.ours, m.theirs, m.found_at, m.explained, COALESCE(e.who, ''), COALESCE(e.why, ''), COALESCE(e.at, 0)
		FROM migration_mismatches m LEFT JOIN migration_explained e ON e.mismatch = m.id `+rest, args...)
	all, err := sqldb.Scan(rows, err, func(x *Mismatch, scan func(...any) error) error {
		return scan(&x.ID, &x.Source, &x.Subject, &x.Ours, &x.Theirs, &x.FoundAt, &x.Explained, &x.ExplainedBy, &x.Reason, &x.ExplainedAt)
	})
	if err != nil {
		return nil, fmt.Errorf("list the mismatches: %w", err)
	}
	return all, nil
}

// Explanation is the reason why a mismatch is harmless.
type Explanation struct {
	Who string // name of the administrator
	Why string
}

// maxReason is the maximum length of a reason in bytes.
const maxReason = 2000

// Explain marks a mismatch as explained, so that it no longer closes a gate. The first explanation
// is kept with name and time. An unknown id is NotFound.
func (m *Migration) Explain(ctx context.Context, id int64, e Explanation) error {
	e.Why = strings.TrimSpace(e.Why)
	switch {
	case e.Why == "":
		return drive.BadField("reason", drive.Required)
	case len(e.Why) > maxReason:
		return drive.BadField("reason", drive.TooLong, "limit", maxReason, "sent", len(e.Why))
	}
	v, err := m.requireStep(ctx)
	if err != nil {
		return err
	}
	now, err := v.primary.DB.Now(ctx)
	if err != nil {
		return err
	}
	return v.primary.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE migration_mismatches SET explained = 1 WHERE id = ? AND migration = ?", id, v.Migration)
		if err == nil && n == 0 {
			err = drive.Fail(drive.NotFound)
		}
		if err != nil {
			return err
		}
		_, err = tx.InsertNew(ctx, "INSERT INTO migration_explained (mismatch, who, why, at) VALUES (?, ?, ?, ?)", id, truncate(e.Who, 255), e.Why, now)
		return err
	})
}

// explanations returns the latest explanations of this migration as texts for the gate, maxNamed at
// most, newest first.
func (k *gatekeeper) explanations(ctx context.Context, v *snapshot) (told []string, err error) {
	all, err := listMismatches(ctx, v.primary.DB, "WHERE m.migration = ? AND e.mismatch IS NOT NULL ORDER BY m.id DESC LIMIT ?", v.Migration, maxNamed)
	for _, x := range all {
		told = append(told, fmt.Sprintf("%d by %s: %s", x.ID, x.ExplainedBy, x.Reason))
	}
	return told, err
}

// countMismatches returns the number of mismatches of this migration that are not explained.
func (k *gatekeeper) countMismatches(ctx context.Context, v *snapshot) (n int64, err error) {
	err = v.primary.DB.QueryRow(ctx, "SELECT COUNT(*) FROM migration_mismatches WHERE migration = ? AND explained = 0", v.Migration).Scan(&n)
	return n, err
}
