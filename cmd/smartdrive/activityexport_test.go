package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/client"
)

func lines(from, to int, end error) iter.Seq2[client.ActivityLine, error] {
	return func(yield func(client.ActivityLine, error) bool) {
		for i := from; i <= to; i++ {
			h := client.ActivityLine{Line: fmt.Appendf(nil, "{\"id\":\"%d-0000000a\"}\n", i)}
			if !yield(h, nil) {
				return
			}
		}
		if end != nil {
			yield(client.ActivityLine{}, end)
		}
	}
}

// An interrupted activity export resumes after the last complete line of its file. A file that is
// not an export is left unchanged.
func TestActivityFileResumes(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "activity.ndjson")
	last := ""
	for i, torn := range []string{"", `{"id":"3-0`, "", `{"id":"3-0000000a"}`} {
		f, err := openActivityFile(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.last != last {
			t.Errorf("run %d goes on after %q, not %q", i, f.last, last)
		}
		if _, err := openActivityFile(name, nil); !errors.Is(err, errTwoExports) {
			t.Errorf("a second command at the same time gets %v", err)
		}
		broken := errors.New("cut")
		if n, err := f.write(lines(2*i+1, 2*i+2, broken)); n != 2 || !errors.Is(err, broken) {
			t.Errorf("run %d writes %d lines and ends with %v", i, n, err)
		}
		last = fmt.Sprintf("%d-0000000a", 2*i+2)
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(raw, torn...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openActivityFile(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.write(lines(9, 9, nil)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := range 9 {
		want += fmt.Sprintf("{\"id\":\"%d-0000000a\"}\n", i+1)
	}
	if string(raw) != want {
		t.Errorf("there is\n%s", raw)
	}

	for _, other := range []string{"a letter\n", "no line", `{"x":1}` + "\n", strings.Repeat("x", 2*maxLastLine)} {
		if err := os.WriteFile(name, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openActivityFile(name, nil); !errors.Is(err, errNoExport) {
			t.Errorf("a file with %.20q is opened: %v", other, err)
		}
		if raw, err := os.ReadFile(name); err != nil || string(raw) != other {
			t.Errorf("%.20q was changed", other)
		}
	}
}
