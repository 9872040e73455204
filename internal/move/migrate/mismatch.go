package migrate

import (
	"context"
	"fmt"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// maxNoted is how many rows of a comparison are noted, for people to look at, and how many reads
// that nobody has explained. Of a comparison, all that differ are counted.
const maxNoted = 200

// note stores that both sides answer a read with something else. It is stored once until somebody
// has explained it.
func (m *matcher) note(ctx context.Context, v *view, x Mismatch) error {
	return m.store(ctx, v, x, func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		var all, same int64
		err := tx.QueryRow(ctx, "SELECT COUNT(*), COALESCE(SUM(subject = ?), 0) FROM migration_mismatches WHERE migration = ? AND source = ? AND explained = 0",
			x.Subject, v.Migration, x.Source).Scan(&all, &same)
		return all < maxNoted && same == 0, err
	})
}

// noteOf stores a row that a full comparison has found, and counts it there: its time says nothing
// when a clock is set back.
func (m *matcher) noteOf(ctx context.Context, v *view, comparison string, x Mismatch) error {
	return m.store(ctx, v, x, func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		return true, countUnequal(ctx, tx, comparison, 1)
	})
}

func countUnequal(ctx context.Context, tx *sqldb.Tx, comparison string, n int64) error {
	_, err := tx.Exec(ctx, "UPDATE migration_checksums SET unequal = unequal + ? WHERE id = ? AND state = 'running'", n, comparison)
	return err
}

// store stores a mismatch if it is wanted.
func (m *matcher) store(ctx context.Context, v *view, x Mismatch, wanted func(ctx context.Context, tx *sqldb.Tx) (bool, error)) error {
	now, err := v.near.DB.Now(ctx)
	if err != nil {
		return err
	}
	stored := false
	err = v.near.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if stored, err = wanted(ctx, tx); err != nil || !stored {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO migration_mismatches (migration, source, subject, ours, theirs, found_at) VALUES (?, ?, ?, ?, ?, ?)",
			v.Migration, x.Source, x.Subject, cut(x.Ours), cut(x.Theirs), now)
		return err
	})
	if err == nil && stored {
		m.log.WarnContext(ctx, "the two sides of the migration differ", "source", x.Source, "subject", x.Subject)
	}
	return err
}

// Mismatches lists what the two sides did not agree on, the latest first.
func (m *Migration) Mismatches(ctx context.Context, limit int) ([]Mismatch, error) {
	return listMismatches(ctx, m.opt.DB, "ORDER BY m.id DESC LIMIT ?", limit)
}

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

// Explanation says why a mismatch does not matter.
type Explanation struct {
	Who string // the name of an administrator
	Why string
}

// maxReason bounds the reason of an explanation, in bytes.
const maxReason = 2000

// Explain marks a mismatch as explained, so that it closes no gate any more. Who, why and when are
// kept. The first explanation stays.
func (m *Migration) Explain(ctx context.Context, id int64, e Explanation) error {
	e.Why = strings.TrimSpace(e.Why)
	switch {
	case e.Why == "":
		return drive.Bad("reason", drive.Required)
	case len(e.Why) > maxReason:
		return drive.Bad("reason", drive.TooLong, "limit", maxReason, "sent", len(e.Why))
	}
	v, err := m.steady(ctx)
	if err != nil {
		return err
	}
	now, err := v.near.DB.Now(ctx)
	if err != nil {
		return err
	}
	return v.near.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE migration_mismatches SET explained = 1 WHERE id = ? AND migration = ?", id, v.Migration)
		if err == nil && n == 0 {
			err = drive.Fail(drive.NotFound)
		}
		if err != nil {
			return err
		}
		_, err = tx.InsertNew(ctx, "INSERT INTO migration_explained (mismatch, who, why, at) VALUES (?, ?, ?, ?)", id, cutTo(e.Who, 255), e.Why, now)
		return err
	})
}

// explanations are those of people, the latest first: evidence for who reads the gate.
func (k *gatekeeper) explanations(ctx context.Context, v *view) (told []string, err error) {
	all, err := listMismatches(ctx, v.near.DB, "WHERE m.migration = ? AND e.mismatch IS NOT NULL ORDER BY m.id DESC LIMIT ?", v.Migration, maxNamed)
	for _, x := range all {
		told = append(told, fmt.Sprintf("%d by %s: %s", x.ID, x.ExplainedBy, x.Reason))
	}
	return told, err
}

// countMismatches counts those that are not explained.
func (k *gatekeeper) countMismatches(ctx context.Context, v *view) (n int64, err error) {
	err = v.near.DB.QueryRow(ctx, "SELECT COUNT(*) FROM migration_mismatches WHERE migration = ? AND explained = 0", v.Migration).Scan(&n)
	return n, err
}
