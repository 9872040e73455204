package migrate

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"example.org/smartdrive/internal/engine/sqldb"
)

// AUTO_INCREMENT numbers continue across a switch, even if the rows with the last numbers are
// deleted: consumers would skip an offset of the outbox that is assigned twice.

// nextNumber matches the next number in a CREATE TABLE statement.
var nextNumber = regexp.MustCompile(`AUTO_INCREMENT=(\d+)`)

// lastNumber returns the last number that a side has assigned automatically in a table; 0 if none.
func lastNumber(ctx context.Context, db *sqldb.DB, t *table) (n int64, err error) {
	if db.Dialect() == sqldb.SQLite {
		err = db.QueryRow(ctx, "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = ?), 0)", t.name).Scan(&n)
		return n, err
	}
	// information_schema may be a day old on MySQL 8, so this reads SHOW CREATE TABLE.
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

// carryNumbers raises the next automatic number of each table at the side to above the last number
// of the side from. headroom is added for numbers that may be assigned meanwhile. It never lowers a
// number.
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

// setNumber makes last the last assigned number of a table at side s, so that the next row gets a
// higher one. It never lowers the number.
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
