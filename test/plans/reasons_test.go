package plans

import (
	"os"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// reasons holds the statements that may read many rows. In its file a line with "=" gives a reason,
// and each line after it a statement in normal form, or "@" and the name of a function whose
// statements differ in the table only.
type reasons struct {
	file string
	why  map[string]string // by line
	used map[string]bool
}

func readReasons(t *testing.T, file string) *reasons {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &reasons{file: file, why: map[string]string{}, used: map[string]bool{}}
	why := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch reason, is := strings.CutPrefix(line, "= "); {
		case line == "", strings.HasPrefix(line, "#"):
		case is:
			why = reason
		case why == "", r.why[line] != "", line != sqldbtest.Normal(line):
			t.Errorf("%s: this has no reason, is there twice, or is not in normal form: %s", file, line)
		default:
			r.why[line] = why
		}
	}
	return r
}

// judge fails unless the plan of a statement is right, or the statement has a reason.
func (r *reasons) judge(t *testing.T, s statement, wrong string) {
	t.Helper()
	if wrong == "" {
		return
	}
	text, asker := sqldbtest.Normal(s.Text), "@"+s.From
	switch {
	case r.why[text] != "":
		r.used[text] = true
	case r.why[asker] != "":
		r.used[asker] = true
	default:
		t.Errorf("%s: %s, and %s has no reason for it:\n%s", s.From, wrong, r.file, text)
	}
}

// unused fails for each reason that nothing needs any more.
func (r *reasons) unused(t *testing.T) {
	t.Helper()
	for text := range r.why {
		if !r.used[text] {
			t.Errorf("%s: there is no such statement any more, or its plan is right: %s", r.file, text)
		}
	}
}
