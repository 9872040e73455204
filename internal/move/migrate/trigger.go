package migrate

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// In the transaction of each change, triggers record which row changed. Both sides have the
// triggers from phase 0 on. Their action depends on the row of migration_side:
//
//	role primary                     record the change
//	no row                           none: the migration was ended while the triggers were being created
//	replicated rows are written      none: on SQLite applying is 1 in that transaction, on MySQL the connection checks no foreign keys
//	otherwise                        refuse the write: the writer does not know that this side is not the primary
//
// SQLite also fires triggers for rows deleted by a foreign key. MySQL does not, so the trigger of
// the parent records the child's key.

const (
	// refusal is the message with which triggers refuse a write to a side that is not the primary.
	refusal       = "smartdrive: this database is not the primary of its migration"
	refusedNumber = 31997 // SIGNAL accepts any number; MySQL uses none in this range
)

// events lists the statements that have a trigger per table.
var events = []string{"INSERT", "UPDATE", "DELETE"}

// triggerName returns the name of the trigger for an event.
func (t *table) triggerName(event string) string {
	return "migration_" + strings.ToLower(event[:3]) + "_" + t.name
}

// trigger returns the CREATE TRIGGER statement for event (INSERT, UPDATE or DELETE) in dialect d.
func (t *table) trigger(d sqldb.Dialect, event string) string {
	if d == sqldb.MySQL {
		return t.triggerMySQL(event)
	}
	return t.triggerSQLite(event)
}

// triggerSQLite returns the CREATE TRIGGER statement of SQLite for event. At the primary the
// trigger records a change per row, at another side it aborts the write unless the applier is
// writing.
func (t *table) triggerSQLite(event string) string {
	which := "NEW."
	if event == "DELETE" {
		which = "OLD."
	}
	const insert = "\n INSERT INTO migration_changes (tbl, k, account) SELECT '%s', %s, %s FROM migration_side WHERE role = %d%s;"
	capture := fmt.Sprintf(insert, t.name, t.keyExpr(sqldb.SQLite, which), t.accountExpr(which), primary, "")
	if event == "UPDATE" {
		capture += fmt.Sprintf(insert, t.name, t.keyExpr(sqldb.SQLite, "OLD."), t.accountExpr("OLD."), primary,
			" AND ("+t.keyExpr(sqldb.SQLite, "OLD.")+") <> ("+t.keyExpr(sqldb.SQLite, "NEW.")+")")
	}
	return fmt.Sprintf("CREATE TRIGGER %s AFTER %s ON %s BEGIN\n SELECT RAISE(ABORT, '%s') FROM migration_side WHERE role <> %d AND applying = 0;%s\nEND",
		quote(t.triggerName(event)), event, quote(t.name), refusal, primary, capture)
}

// triggerMySQL returns the CREATE TRIGGER statement of MySQL for event (INSERT, UPDATE or DELETE).
// At the primary the trigger records a change per row, at another side of a migration it refuses
// the write; without foreign key checks it does nothing.
func (t *table) triggerMySQL(event string) string {
	which := "NEW."
	if event == "DELETE" {
		which = "OLD."
	}
	const insert = "INSERT INTO migration_changes (tbl, k, account) VALUES ('%s', %s, %s);\n"
	capture := fmt.Sprintf(insert, t.name, t.keyExpr(sqldb.MySQL, which), t.accountExpr(which))
	switch event {
	case "UPDATE":
		capture += fmt.Sprintf("IF %s <> %s THEN %s END IF;\n", t.keyExpr(sqldb.MySQL, "OLD."), t.keyExpr(sqldb.MySQL, "NEW."),
			fmt.Sprintf(insert, t.name, t.keyExpr(sqldb.MySQL, "OLD."), t.accountExpr("OLD.")))
	case "DELETE":
		var more strings.Builder
		for _, child := range t.children {
			fmt.Fprintf(&more, insert, child, t.keyExpr(sqldb.MySQL, "OLD."), t.accountExpr("OLD."))
		}
		capture += more.String()
	}
	return fmt.Sprintf(`CREATE TRIGGER %s AFTER %s ON %s FOR EACH ROW BEGIN
IF @@foreign_key_checks = 1 THEN
IF (SELECT role FROM migration_side WHERE id = 1) = %d THEN
%sELSEIF EXISTS (SELECT 1 FROM migration_side WHERE id = 1) THEN
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '%s', MYSQL_ERRNO = %d;
END IF;
END IF;
END`, quote(t.triggerName(event)), event, quote(t.name), primary, capture, refusal, refusedNumber)
}

// keyExpr returns the SQL expression that computes keyOf from the columns of NEW or OLD.
func (t *table) keyExpr(d sqldb.Dialect, which string) string {
	cast := func(p int) string {
		name := which + quote(t.cols[p].name)
		switch {
		case t.cols[p].kind != numberKind:
			return name
		case d == sqldb.MySQL:
			return "CAST(" + name + " AS CHAR)"
		}
		return "CAST(" + name + " AS TEXT)"
	}
	if len(t.key) == 1 {
		return cast(t.key[0])
	}
	parts := make([]string, len(t.key))
	for i, p := range t.key {
		parts[i] = "HEX(" + cast(p) + ")"
	}
	if d == sqldb.MySQL {
		return "CONCAT(" + strings.Join(parts, ", '.', ") + ")"
	}
	return strings.Join(parts, " || '.' || ")
}

// accountExpr returns the SQL expression for the account that owns the row, which is NEW. or OLD.;
// an empty text for tables without one.
func (t *table) accountExpr(which string) string {
	if t.account == "" {
		return "''"
	}
	return which + quote(t.account)
}

// createTriggers creates the missing triggers of a side, one after the other: MariaDB 10.11, asked
// for several at once, leaves files in the database directory that prevent dropping the database.
// Correct triggers stay, because another process may be in the next phase already and must miss no
// change. On MySQL, each statement waits for transactions on its table and commits by itself;
// createTriggers is idempotent.
func createTriggers(ctx context.Context, s Side, tables []*table) error {
	have, err := triggersOf(ctx, s.DB)
	if err != nil {
		return err
	}
	for _, t := range tables {
		for _, event := range events {
			if err := t.createTrigger(ctx, s, event, have[t.triggerName(event)]); err != nil {
				return fmt.Errorf("triggers of %s: %w", t.name, err)
			}
		}
	}
	return nil
}

// createTrigger creates or replaces one trigger. seen is the end of the existing statement; empty:
// there is none.
func (t *table) createTrigger(ctx context.Context, s Side, event, seen string) error {
	should := t.trigger(s.DB.Dialect(), event)
	if seen != "" && strings.HasSuffix(should, seen) {
		return nil
	}
	err := s.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if seen != "" { // from another release
			if err := dropTrigger(ctx, tx, t, event); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, should)
		return err
	})
	if err == nil {
		return nil
	}
	if have, lookErr := triggersOf(ctx, s.DB); lookErr == nil && strings.HasSuffix(should, cmp.Or(have[t.triggerName(event)], "none")) {
		return nil // another process created it meanwhile
	}
	return err
}

// dropTriggers drops the triggers of tables at a side, each in a transaction of its own. Missing
// ones are no error. It stops at the first error.
func dropTriggers(ctx context.Context, s Side, tables []*table) error {
	for _, t := range tables {
		for _, event := range events { // one transaction each, so that a retry runs one statement
			err := s.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return dropTrigger(ctx, tx, t, event) })
			if err != nil {
				return fmt.Errorf("triggers of %s: %w", t.name, err)
			}
		}
	}
	return nil
}

// dropTrigger drops the trigger for event of table t within tx. A missing one is no error.
func dropTrigger(ctx context.Context, tx *sqldb.Tx, t *table, event string) error {
	_, err := tx.Exec(ctx, "DROP TRIGGER IF EXISTS "+quote(t.triggerName(event)))
	return err
}

// triggersOf returns the triggers of the migration by name: on SQLite the statements, on MySQL
// their bodies from BEGIN on.
func triggersOf(ctx context.Context, db *sqldb.DB) (map[string]string, error) {
	query := `SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'migration\_%' ESCAPE '\'`
	if db.Dialect() == sqldb.MySQL {
		query = `SELECT trigger_name, action_statement FROM information_schema.triggers WHERE trigger_schema = DATABASE() AND trigger_name LIKE 'migration\_%'`
	}
	type trigger struct{ name, text string }
	rows, err := db.Query(ctx, query)
	all, err := sqldb.Scan(rows, err, func(x *trigger, scan func(...any) error) error { return scan(&x.name, &x.text) })
	if err != nil {
		return nil, fmt.Errorf("look for triggers: %w", err)
	}
	have := make(map[string]string, len(all))
	for _, x := range all {
		have[x.name] = x.text
	}
	return have, nil
}

// countTriggers returns the number of triggers of the migration in db, of whatever tables.
func countTriggers(ctx context.Context, db *sqldb.DB) (n int, err error) {
	query := `SELECT COUNT(*) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'migration\_%' ESCAPE '\'`
	if db.Dialect() == sqldb.MySQL {
		query = `SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = DATABASE() AND trigger_name LIKE 'migration\_%'`
	}
	err = db.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// checkTriggerRight returns WrongState if the user of the side's database may not create triggers.
// It creates and drops a trigger on the empty table migration_acks. SQLite needs no right.
func checkTriggerRight(ctx context.Context, s Side) error {
	if s.DB.Dialect() == sqldb.SQLite {
		return nil
	}
	err := s.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "DROP TRIGGER IF EXISTS migration_probe"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "CREATE TRIGGER migration_probe AFTER INSERT ON migration_acks FOR EACH ROW BEGIN END")
		if err == nil {
			_, err = tx.Exec(ctx, "DROP TRIGGER migration_probe")
		}
		return err
	})
	if err != nil {
		return drive.Wrap(fmt.Errorf("the database's user may not make triggers: GRANT TRIGGER on it, and where the server keeps a binary "+
			"log SET GLOBAL log_bin_trust_function_creators = 1: %w", err), drive.WrongState)
	}
	return nil
}
