package migrate

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"smartdrive/internal/engine/sqldb"
)

// Automatic numbers go on where the other side stopped, also where the rows with the last ones are
// gone: an offset of the outbox that was given out twice would be skipped by every consumer.

var nextNumber = regexp.MustCompile(`AUTO_INCREMENT=(\d+)`)

// lastNumber is the last number that a side has given out in a table.
func lastNumber(ctx context.Context, db *sqldb.DB, t *table) (n int64, err error) {
	if db.Dialect() == sqldb.SQLite {
		err = db.QueryRow(ctx, "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = ?), 0)", t.name).Scan(&n)
		return n, err
	}
	// information_schema may be a day old on MySQL 8.
	var name, made string
	if err := db.QueryRow(ctx, "SHOW CREATE TABLE "+quote(t.name)).Scan(&name, &made); err != nil {
		return 0, err
	}
	if m := nextNumber.FindStringSubmatch(made); m != nil {
		n, err = strconv.ParseInt(m[1], 10, 64)
		return n - 1, err
	}
	return 0, nil
}

// carryNumbers makes the numbers of one side go on above those of another, and above what it may
// give out meanwhile.
func (w *switcher) carryNumbers(ctx context.Context, from, to *Side, headroom int64) error {
	for _, t := range w.tables {
		if !t.numbers {
			continue
		}
		last, err := lastNumber(ctx, from.DB, t)
		if err != nil {
			return fmt.Errorf("read the last number of %s: %w", t.name, err)
		}
		there, err := lastNumber(ctx, to.DB, t)
		if err != nil {
			return fmt.Errorf("read the last number of %s: %w", t.name, err)
		}
		if there >= last {
			continue
		}
		if err := setNumber(ctx, to, t, last+headroom); err != nil {
			return fmt.Errorf("carry the numbers of %s over: %w", t.name, err)
		}
	}
	return nil
}

func setNumber(ctx context.Context, s *Side, t *table, last int64) error {
	return s.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if tx.Dialect() == sqldb.MySQL {
			_, err := tx.Exec(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", quote(t.name), last+1))
			return err
		}
		n, err := tx.Exec(ctx, "UPDATE sqlite_sequence SET seq = ? WHERE name = ? AND seq < ?", last, t.name, last)
		if err == nil && n == 0 {
			_, err = tx.Exec(ctx, "INSERT INTO sqlite_sequence (name, seq) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?)",
				t.name, last, t.name)
		}
		return err
	})
}
