package innodb

import "testing"

// INSERT IGNORE hides every error, not only the duplicate. Values that strict mode refuses are
// changed or not stored at all, and the statement succeeds.
func TestIgnoreHidesOtherErrors(t *testing.T) {
	t.Parallel()
	const parents = `CREATE TABLE parents (id INT NOT NULL PRIMARY KEY)`
	for name, c := range map[string]struct {
		table  string // column v
		value  string
		code   uint16 // of the plain INSERT
		stored []string
	}{
		"null becomes zero":         {`CREATE TABLE r (id INT NOT NULL PRIMARY KEY, v BIGINT NOT NULL)`, "(SELECT NULL FROM DUAL)", isNull, []string{"0"}},
		"null becomes empty":        {`CREATE TABLE r (id INT NOT NULL PRIMARY KEY, v VARCHAR(9) NOT NULL)`, "(SELECT NULL FROM DUAL)", isNull, []string{""}},
		"a text is cut":             {`CREATE TABLE r (id INT NOT NULL PRIMARY KEY, v VARCHAR(3) NOT NULL)`, "'account-1'", tooLong, []string{"acc"}},
		"a number is clamped":       {`CREATE TABLE r (id INT NOT NULL PRIMARY KEY, v TINYINT NOT NULL)`, "1000", tooLarge, []string{"127"}},
		"no parent, no row":         {`CREATE TABLE r (id INT NOT NULL PRIMARY KEY, v INT NOT NULL, FOREIGN KEY (v) REFERENCES parents (id))`, "1", noParent, nil},
		"no partition, no row":      {`CREATE TABLE r (id INT NOT NULL, v INT NOT NULL) PARTITION BY RANGE (v) (PARTITION p VALUES LESS THAN (10))`, "10", noPartition, nil},
		"a bad number becomes zero": {`CREATE TABLE r (id INT NOT NULL PRIMARY KEY, v BIGINT NOT NULL)`, "'12x'", 1265, []string{"12"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, parents)
			exec(t, s, c.table)
			_, err := s.ExecContext(t.Context(), "INSERT INTO r (id, v) SELECT 1, "+c.value)
			wantCode(t, err, c.code)
			wantRows(t, all(t, s, "SELECT v FROM r"))
			exec(t, s, "INSERT IGNORE INTO r (id, v) SELECT 1, "+c.value)
			wantRows(t, all(t, s, "SELECT v FROM r"), c.stored...)
		})
	}
}

// The count is the same for "it was there" and for "it could not be stored".
func TestIgnoreDoesNotSayWhy(t *testing.T) {
	t.Parallel()
	s := newServer(t, `CREATE TABLE parents (id INT NOT NULL PRIMARY KEY)`,
		`CREATE TABLE r (id INT NOT NULL PRIMARY KEY, parent INT NOT NULL, FOREIGN KEY (parent) REFERENCES parents (id))`)
	exec(t, s, "INSERT INTO parents VALUES (1)")
	exec(t, s, "INSERT INTO r VALUES (1, 1)")
	there := exec(t, s, "INSERT IGNORE INTO r VALUES (1, 1)")
	orphan := exec(t, s, "INSERT IGNORE INTO r VALUES (2, 2)")
	if there != 0 || orphan != 0 {
		t.Fatalf("%d rows for the duplicate, %d for the orphan", there, orphan)
	}
}
