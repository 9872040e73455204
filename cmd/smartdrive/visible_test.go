package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
)

func TestEscapeInvisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"bill\u202egpj.exe":   `bill\u202egpj.exe`, // what looks like billexe.jpg
		"a\u2066b\u2069":      `a\u2066b\u2069`,
		"a\u200bb":            `a\u200bb`,
		"a\u200db":            `a\u200db`,
		"\ufeffa\u200d":       `\ufeffa\u200d`,
		"a\x1b[2Jb\r":         `a\u001b[2Jb\u000d`,
		"a\u061cb\u3164":      `a\u061cb\u3164`,
		"a\U000e0041":         `a\u{e0041}`,
		"a\u2028b\u00ad":      `a\u2028b\u00ad`,
		"two\nlines\ta":       "two\nlines\ta",
		"发票 2026.pdf":         "发票 2026.pdf",
		"فاتورة.pdf":          "فاتورة.pdf",
		"می\u200cخواهم":       "می\u200cخواهم",
		"👩\u200d👩\u200d👧.png": "👩\u200d👩\u200d👧.png",
		"\u0601":              "\u0601",
		`a\b`:                 `a\b`,
		"":                    "",
	} {
		if got := escapeInvisible(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// A file name from another user is escaped for people, on a terminal or not, and exact for
// programs.
func TestVisibleNamesAreUnchanged(t *testing.T) {
	t.Parallel()
	const name, spelt = "bill\u202egpj\u200b.exe", `bill\u202egpj\u200b.exe`
	s := clienttest.New(t)
	s.Store("/"+name, []byte("x"), time.Unix(1, 0))
	say := func(args ...string) (stdout, stderr string) {
		var out, errs bytes.Buffer
		args = append(args, "--server", s.URL(), "--token", clienttest.Token)
		run(t.Context(), args, streams{strings.NewReader(""), &out, &errs})
		return out.String(), errs.String()
	}
	for _, args := range [][]string{{"ls", "/"}, {"ls", "-l", "/" + name}, {"get", "/" + name, t.TempDir()}} {
		if out, errs := say(args...); !strings.Contains(out, spelt) || strings.Contains(out+errs, name) {
			t.Errorf("%q prints %q and %q", args, out, errs)
		}
	}
	if _, errs := say("ls", "/none"+name); !strings.Contains(errs, spelt) || strings.Contains(errs, "\u202e") {
		t.Errorf("an error is %q", errs)
	}
	var node struct{ Name string }
	out, _ := say("ls", "/", "--json")
	if err := json.Unmarshal([]byte(out), &node); err != nil || node.Name != name {
		t.Errorf("JSON is %q, %v", out, err)
	}
}
