package migrate

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Triggers write beside each change of a row which row it was, in the same transaction. Both sides
// have them from phase 0 on; they ask the row of migration_side what to do:
//
//	role primary                     capture
//	there is no row                  nothing: the move was given up while somebody was still making triggers
//	rows are being brought           nothing: on SQLite applying is 1 inside that transaction, on MySQL the connection checks no
//	                                 foreign keys
//	otherwise                        refuse: somebody writes who does not know that this is not the primary
//
// SQLite fires them for what a foreign key deletes, too. MySQL does not: the trigger of the parent
// writes the child's key.

const (
	refusal       = "smartdrive: this database is not the primary of its migration"
	refusedNumber = 31997 // SIGNAL may set any number; MySQL itself uses none of these
)

var events = []string{"INSERT", "UPDATE", "DELETE"}

func (t *table) triggerName(event string) string {
	return "migration_" + strings.ToLower(event[:3]) + "_" + t.name
}

// trigger is the statement that makes one.
func (t *table) trigger(d sqldb.Dialect, event string) string {
	if d == sqldb.MySQL {
		return t.triggerMySQL(event)
	}
	return t.triggerSQLite(event)
}

func (t *table) triggerSQLite(event string) string {
	which := "NEW."
	if event == "DELETE" {
		which = "OLD."
	}
	const insert = "\n INSERT INTO migration_changes (tbl, k, account) SELECT '%s', %s, %s FROM migration_side WHERE role = %d%s;"
	capture := fmt.Sprintf(insert, t.name, t.keyText(sqldb.SQLite, which), t.accountOf(which), primary, "")
	if event == "UPDATE" {
		capture += fmt.Sprintf(insert, t.name, t.keyText(sqldb.SQLite, "OLD."), t.accountOf("OLD."), primary,
			" AND ("+t.keyText(sqldb.SQLite, "OLD.")+") <> ("+t.keyText(sqldb.SQLite, "NEW.")+")")
	}
	return fmt.Sprintf("CREATE TRIGGER %s AFTER %s ON %s BEGIN\n SELECT RAISE(ABORT, '%s') FROM migration_side WHERE role <> %d AND applying = 0;%s\nEND",
		quote(t.triggerName(event)), event, quote(t.name), refusal, primary, capture)
}

func (t *table) triggerMySQL(event string) string {
	which := "NEW."
	if event == "DELETE" {
		which = "OLD."
	}
	const insert = "INSERT INTO migration_changes (tbl, k, account) VALUES ('%s', %s, %s);\n"
	capture := fmt.Sprintf(insert, t.name, t.keyText(sqldb.MySQL, which), t.accountOf(which))
	switch event {
	case "UPDATE":
		capture += fmt.Sprintf("IF %s <> %s THEN %s END IF;\n", t.keyText(sqldb.MySQL, "OLD."), t.keyText(sqldb.MySQL, "NEW."),
			fmt.Sprintf(insert, t.name, t.keyText(sqldb.MySQL, "OLD."), t.accountOf("OLD.")))
	case "DELETE":
		var more strings.Builder
		for _, child := range t.children {
			fmt.Fprintf(&more, insert, child, t.keyText(sqldb.MySQL, "OLD."), t.accountOf("OLD."))
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

// keyText is the expression of keyOf.
func (t *table) keyText(d sqldb.Dialect, which string) string {
	cast := func(p int) string {
		name := which + quote(t.cols[p].name)
		switch {
		case t.cols[p].kind != number:
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

func (t *table) accountOf(which string) string {
	if t.account == "" {
		return "''"
	}
	return which + quote(t.account)
}

// arm makes the triggers that a side lacks, one after the other: MariaDB 10.11, asked for several
// at once, leaves files in the directory of the database, which then cannot be dropped. One that is
// as it should be stays. Another process may have begun before and be at the next phase already,
// which must miss no change. On MySQL each statement waits for the transactions that have used its
// table, and is committed by itself: all of it can be repeated.
func arm(ctx context.Context, s Side, tables []*table) error {
	have, err := triggersOf(ctx, s.DB)
	if err != nil {
		return err
	}
	for _, t := range tables {
		for _, event := range events {
			if err := t.arm(ctx, s, event, have[t.triggerName(event)]); err != nil {
				return fmt.Errorf("triggers of %s: %w", t.name, err)
			}
		}
	}
	return nil
}

// arm makes one trigger. seen is what was there before: nothing, or the end of a statement.
func (t *table) arm(ctx context.Context, s Side, event, seen string) error {
	should := t.trigger(s.DB.Dialect(), event)
	if seen != "" && strings.HasSuffix(should, seen) {
		return nil
	}
	err := s.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if seen != "" { // by another release
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
		return nil // somebody else made it meanwhile
	}
	return err
}

// disarm drops all triggers.
func disarm(ctx context.Context, s Side, tables []*table) error {
	for _, t := range tables {
		for _, event := range events { // each in a transaction of its own: what runs again is one statement
			err := s.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return dropTrigger(ctx, tx, t, event) })
			if err != nil {
				return fmt.Errorf("triggers of %s: %w", t.name, err)
			}
		}
	}
	return nil
}

func dropTrigger(ctx context.Context, tx *sqldb.Tx, t *table, event string) error {
	_, err := tx.Exec(ctx, "DROP TRIGGER IF EXISTS "+quote(t.triggerName(event)))
	return err
}

// triggersOf lists the triggers of the move that a side has, by name: on SQLite the statements, on
// MySQL what they say from BEGIN on.
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

// countTriggers says how many triggers of the move a side has.
func countTriggers(ctx context.Context, db *sqldb.DB) (n int, err error) {
	query := `SELECT COUNT(*) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'migration\_%' ESCAPE '\'`
	if db.Dialect() == sqldb.MySQL {
		query = `SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = DATABASE() AND trigger_name LIKE 'migration\_%'`
	}
	err = db.QueryRow(ctx, query).Scan(&n)
	return n, err
}

// mayArm finds out whether the user may make triggers, by making one on a table of the move's own.
func mayArm(ctx context.Context, s Side) error {
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
