package drive_test

import (
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

func TestDisplayedTexts(t *testing.T) {
	t.Parallel()
	text := func(r drive.TextRule) func(string) (string, error) {
		return func(s string) (string, error) { return drive.ParseText("note", s, r) }
	}
	label := func(s string) (string, error) { return drive.ParseLabel("note", s, 6) }
	for what, c := range map[string]struct {
		parse      func(string) (string, error)
		sent, want string
		reason     drive.Reason
	}{
		"NFC, trimmed":                    {text(drive.TextRule{}), " e\u0301\n", "é", ""},
		"empty":                           {text(drive.TextRule{Chars: 1}), " ", "", ""},
		"as many characters":              {text(drive.TextRule{Chars: 3}), "报告三", "报告三", ""},
		"characters after NFC":            {text(drive.TextRule{Chars: 3}), "e\u0301e\u0301e\u0301", "ééé", ""},
		"too many characters":             {text(drive.TextRule{Chars: 3}), "报告三四", "", drive.TooManyChars},
		"as many bytes":                   {text(drive.TextRule{Bytes: 6}), "报告", "报告", ""},
		"too many bytes":                  {text(drive.TextRule{Bytes: 6}), "报告x", "", drive.TooLong},
		"other spaces":                    {text(drive.TextRule{}), "a\u3000b", "a\u3000b", ""},
		"lines":                           {text(drive.TextRule{Lines: true}), "a\nb", "a\nb", ""},
		"lines where there are none":      {text(drive.TextRule{}), "a\nb", "", drive.Malformed},
		"a tab":                           {text(drive.TextRule{Lines: true}), "a\tb", "", drive.Malformed},
		"reversed text":                   {text(drive.TextRule{}), "a\u202eb", "", drive.Malformed},
		"not UTF-8":                       {text(drive.TextRule{}), "\xff", "", drive.Malformed},
		"a label":                         {label, "e\u0301 b", "é b", ""},
		"a label of nothing":              {label, "", "", drive.Required},
		"a label that is too long":        {label, strings.Repeat("x", 7), "", drive.TooLong},
		"a label with a space at its end": {label, "a ", "", drive.Malformed},
		"a label with another space":      {label, "a\u00a0b", "", drive.Malformed},
	} {
		got, err := c.parse(c.sent)
		var reason any
		if e, ok := err.(*drive.Error); ok {
			reason = e.Args["reason"]
			if e.Kind != drive.BadRequest || e.Args["field"] != "note" {
				t.Errorf("%s: %v", what, err)
			}
		}
		if want := any(string(c.reason)); c.reason == "" && err != nil || c.reason != "" && reason != want || err == nil && got != c.want {
			t.Errorf("%s: %q, %v; want %q, %v", what, got, err, c.want, c.reason)
		}
	}
}
