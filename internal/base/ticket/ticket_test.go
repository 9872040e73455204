package ticket

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTicket(t *testing.T) {
	t.Parallel()
	key := DeriveKey([]byte("secret"), "test")
	fields := AppendNumbers([]byte("abc"), int64(-7))
	text := key.Sign(fields)
	got, ok := key.Open(text, 3, 11)
	if !ok || !cmp.Equal(got, fields) || ReadNumber[int64](got[3:]) != -7 {
		t.Fatalf("%q, %v", got, ok)
	}
	for i := range text {
		for _, c := range "Aa_-" {
			if changed := text[:i] + string(c) + text[i+1:]; changed != text {
				if _, ok := key.Open(changed, 3, 11); ok {
					t.Errorf("%s was taken for %s", changed, text)
				}
			}
		}
	}
	for name, open := range map[string]func() ([]byte, bool){
		"another purpose": func() ([]byte, bool) { return DeriveKey([]byte("secret"), "other").Open(text, 3, 11) },
		"the secret":      func() ([]byte, bool) { return Key("secret").Open(text, 3, 11) },
		"too short":       func() ([]byte, bool) { return key.Open(text, 12, 20) },
		"too long":        func() ([]byte, bool) { return key.Open(text, 3, 10) },
		"cut off":         func() ([]byte, bool) { return key.Open(text[:len(text)-1], 3, 11) },
		"nothing":         func() ([]byte, bool) { return key.Open("", 0, 11) },
		"padded":          func() ([]byte, bool) { return key.Open(text+"=", 3, 11) },
		"line breaks":     func() ([]byte, bool) { return key.Open(strings.Replace(text, text[:1], text[:1]+"\n", 1), 3, 20) },
	} {
		if _, ok := open(); ok {
			t.Errorf("%s: it was opened", name)
		}
	}
}
