package idem

import (
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, want string
		ok       bool
	}{
		"bare":                {"8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324", true},
		"quoted":              {`"8e03978e"`, "8e03978e", true},
		"escapes":             {`"a\"b\\c"`, `a"b\c`, true},
		"one character":       {"!", "!", true},
		"inner space":         {"a b", "a b", true},
		"longest":             {strings.Repeat("k", 255), strings.Repeat("k", 255), true},
		"longest quoted":      {`"` + strings.Repeat("k", 255) + `"`, strings.Repeat("k", 255), true},
		"quote inside a bare": {`a"b`, `a"b`, true},
		"empty":               {"", "", false},
		"empty quoted":        {`""`, "", false},
		"too long":            {strings.Repeat("k", 256), "", false},
		"not closed":          {`"abc`, "", false},
		"only a quote":        {`"`, "", false},
		"open escape":         {`"abc\`, "", false},
		"other escape":        {`"a\n"`, "", false},
		"parameters":          {`"abc";v=1`, "", false},
		"tab":                 {"a\tb", "", false},
		"delete":              {"a\x7f", "", false},
		"not ascii":           {"é", "", false},
		"quoted not ascii":    {`"é"`, "", false},
	} {
		got, err := parseKey(c.in)
		if c.ok && (err != nil || got != c.want) || !c.ok && !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.want, c.ok)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"abc", `"abc"`, `"a\"b"`, `"`, "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := parseKey(s)
		if err != nil {
			return
		}
		if len(key) < 1 || len(key) > MaxKeyBytes {
			t.Fatalf("%d bytes", len(key))
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := parseKey(quoted); err != nil || again != key {
			t.Fatalf("%q, quoted %s, came back as %q, %v", key, quoted, again, err)
		}
	})
}
