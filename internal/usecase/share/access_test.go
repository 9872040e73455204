package share

import (
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/ticket"
)

// FuzzAccess checks that only signatures with the key are accepted and that they yield the signed
// value.
func FuzzAccess(f *testing.F) {
	key := ticket.DeriveKey([]byte("secret"), "share access")
	// fixed, for the seeds are made in one process and tried in another
	good := accessTicket{share: drive.ShareID{1, 2}, visit: drive.VisitID{3, 4}, epoch: 3, expires: 1_800_000_000_000}
	f.Add(good.text(key))
	f.Add(good.text([]byte("another key")))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseAccess(text, key)
		if ok && (got.text(key) != text || got != good) {
			t.Errorf("%q was taken as %+v", text, got)
		}
		if !ok && text == good.text(key) {
			t.Error("a good one was refused")
		}
	})
}

func TestCodes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		code, err := makeCode(AutoCode)
		if err != nil || len(code) != autoCode || strings.Trim(code, codeLetters) != "" {
			t.Fatalf("made up %q, %v", code, err)
		}
		seen[code] = true
	}
	if len(seen) < 99 {
		t.Errorf("100 codes are %d", len(seen))
	}
	for given, ok := range map[string]bool{"abcd": true, "ABCD1234efgh5678": true, "abc": false, "abcd1234efgh56789": false, "ab d": false, "密码密码": false} {
		if _, err := makeCode(given); (err == nil) != ok {
			t.Errorf("%q: %v", given, err)
		}
	}
	for typed, same := range map[string]bool{"Abcd": true, " aBCD\n": true, "abc": false, "abcde": false, "": false} {
		if sameCode("ABcd", typed) != same {
			t.Errorf("%q is %v", typed, !same)
		}
	}
}
