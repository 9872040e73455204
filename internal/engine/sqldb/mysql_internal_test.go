package sqldb

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"example.org/smartdrive/internal/base/drive"
)

func TestParseMySQL(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"mysql://u:p@h:3307/sd":                       "u:p@tcp(h:3307)/sd",
		"mysql://u:p@h/sd":                            "u:p@tcp(h:3306)/sd",
		"mysql://u@[::1]:3307/sd":                     "u@tcp([::1]:3307)/sd",
		"mysql://u:p%40%2F%3A%23@h/sd?tls=true":       "u:p@/:#@tcp(h:3306)/sd?tls=true",
		"mysql://u:p@h/sd?tls=skip-verify":            "u:p@tcp(h:3306)/sd?tls=skip-verify",
		"u:p@tcp(h:3307)/sd":                          "u:p@tcp(h:3307)/sd",
		"u:p@unix(/run/mysqld/mysqld.sock)/smart-dr_": "u:p@unix(/run/mysqld/mysqld.sock)/smart-dr_",
	} {
		cfg, err := parseMySQL(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
		} else if got := cfg.FormatDSN(); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}

func TestParseMySQLRefusesInWords(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                               "no database",
		"mysql://":                       "no user",
		"mysql://h/sd":                   "no user",
		"mysql://u:p@/sd":                "no host",
		"mysql://u:p@h":                  "no database",
		"mysql://u:p@h/":                 "no database",
		"mysql://u:p@h/a/b":              "not a name of a database",
		"mysql://u:p@h/sd`;":             "not a name of a database",
		"mysql://u:p@h/sd?charset=utf8":  "only tls",
		"mysql://u:p@h/sd?tls=maybe":     "skip-verify",
		"mysql://u:p@h/sd?tls=%zz":       "malformed",
		"mysql://u:secret@h:x/sd":        "malformed",
		"mysql://u:se#cret@h/sd":         "malformed",
		"mysql://u:p@h/sd#x":             "#",
		"mysql://u:secret@h/sd?%":        "malformed",
		":secret@tcp(h:3307)/sd":         "no user",
		"u:secret@tcp(h:3307":            "neither",
		"u:secret@tcp(h:3307)/a very sd": "not a name",
	} {
		_, err := parseMySQL(source)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v tells the password", source, err)
		}
	}
}

func FuzzParseMySQL(f *testing.F) {
	for _, s := range []string{"mysql://u:p@h:1/sd?tls=true", "mysql://u:p%40@[::1]/s", "u@tcp(h)/sd", ":p@/sd", "mysql://%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		cfg, err := parseMySQL(source)
		if err != nil {
			return
		}
		complete(cfg)
		again, err := mysql.ParseDSN(cfg.FormatDSN())
		if err != nil {
			t.Fatalf("%q becomes %q: %v", source, cfg.FormatDSN(), err)
		}
		if again.User != cfg.User || again.Passwd != cfg.Passwd || again.Addr != cfg.Addr || again.DBName != cfg.DBName {
			t.Errorf("%q: %+v, then %+v", source, cfg, again)
		}
	})
}

func TestServerVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"8.0.36":                             "",
		"8.4.3-0ubuntu0":                     "",
		"8.0.11":                             "and 8.0.16 is the oldest that works",
		"9.1.0-commercial":                   "",
		"10.11.19-MariaDB-0+deb12u1":         "",
		"5.5.5-10.6.4-MariaDB-log":           "",
		"11.4.2-MariaDB":                     "",
		"5.7.44-log":                         "MySQL 5.7.44-log, and 8.0.16 is the oldest that works",
		"10.5.26-MariaDB":                    "MariaDB 10.5.26-MariaDB, and 10.6.0 is the oldest that works",
		"5.5.5-10.3.39-MariaDB-0+deb10u1":    "and 10.6.0 is the oldest that works",
		"PostgreSQL 16.1 on x86_64-pc-linux": "calls its version",
	} {
		s := server{version: version}
		err := s.parse()
		if err == nil {
			err = s.check()
		}
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
}

// TestUnknownCommitIsNotRepeated: a transaction with an unknown commit result is not repeated.
func TestUnknownCommitIsNotRepeated(t *testing.T) {
	t.Parallel()
	for number, again := range map[uint16]bool{erDeadlock: true, erLockTimeout: false, erChanged: false, 1053: false} {
		err := (&pool{}).notCommitted(&mysql.MySQLError{Number: number})
		if isConflict(err) != again || drive.KindOf(err) != drive.Unavailable {
			t.Errorf("%d: %v, again: %v", number, err, isConflict(err))
		}
	}
}

func TestErrorsOfMySQL(t *testing.T) {
	t.Parallel()
	number := func(n uint16, text string) error { return &mysql.MySQLError{Number: n, Message: text} }
	for _, c := range []struct {
		err    error
		kind   drive.Kind
		breaks bool
	}{
		{number(1062, "Duplicate entry"), drive.Internal, false},
		{number(1406, "Data too long for column"), drive.Internal, false},
		{number(4025, "CONSTRAINT `ledgers.reserved` failed"), drive.Internal, false},
		{number(1213, "Deadlock found"), drive.Unavailable, true},
		{number(1205, "Lock wait timeout exceeded"), drive.Unavailable, true},
		{number(1290, "running with the --read-only option"), drive.Unavailable, true},
		{number(1053, "Server shutdown in progress"), drive.Unavailable, true},
		{number(1040, "Too many connections"), drive.Unavailable, true},
		{number(1021, "Disk full"), drive.DiskFull, true},
		{number(1114, "The table 'blobs' is full"), drive.DiskFull, true},
		{number(1030, `Got error 28 "No space left on device" from storage engine InnoDB`), drive.DiskFull, true},
		{number(1030, `Got error 168 "Unknown (generic) error from engine" from storage engine InnoDB`), drive.Internal, false},
		{number(1180, `Got error 189 "The tablespace is full" during COMMIT`), drive.DiskFull, true},
		{mysql.ErrInvalidConn, drive.Unavailable, true},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, drive.Unavailable, true},
		{io.ErrUnexpectedEOF, drive.Unavailable, true},
	} {
		err := fmt.Errorf("do it: %w", classify(c.err))
		if drive.KindOf(err) != c.kind || breaksTransaction(err) != c.breaks {
			t.Errorf("%v: %v, breaks the transaction: %v", c.err, drive.KindOf(err), breaksTransaction(err))
		}
	}
	if !IsDuplicate(classify(number(1062, ""))) || IsDuplicate(classify(number(1205, ""))) || !IsLockTimeout(classify(number(3572, ""))) {
		t.Error("a duplicate or a lock is not recognised")
	}
}
