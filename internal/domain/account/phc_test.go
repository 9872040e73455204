package account

import (
	"strings"
	"testing"
)

// TestReferenceHashVerifies uses the test vector of the reference implementation's README for
// "somesalt" and "password".
func TestReferenceHashVerifies(t *testing.T) {
	t.Parallel()
	const stored = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	p, err := parsePHC(stored)
	if err != nil {
		t.Fatal(err)
	}
	if !p.matches("password") || p.matches("Password") {
		t.Fatal("the reference implementation's hash does not tell right from wrong")
	}
}

func TestParsePHCRefuses(t *testing.T) {
	t.Parallel()
	const salt, sum = "c29tZXNhbHQ", "CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	good := "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + sum
	if _, err := parsePHC(good); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{
		"empty":            "",
		"other algorithm":  strings.Replace(good, "argon2id", "argon2i", 1),
		"other version":    strings.Replace(good, "v=19", "v=16", 1),
		"no version":       strings.Replace(good, "$v=19", "", 1),
		"memory too large": strings.Replace(good, "m=64", "m=262145", 1),
		"memory below 8p":  strings.Replace(good, "p=1", "p=9", 1),
		"no pass":          strings.Replace(good, "t=1", "t=0", 1),
		"too many passes":  strings.Replace(good, "t=1", "t=17", 1),
		"leading zero":     strings.Replace(good, "t=1", "t=01", 1),
		"plus sign":        strings.Replace(good, "t=1", "t=+1", 1),
		"other order":      strings.Replace(good, "m=64,t=1", "t=1,m=64", 1),
		"padding":          good + "=",
		"line break":       good + "\n",
		"short salt":       strings.Replace(good, salt, "c29t", 1),
		"short sum":        strings.Replace(good, sum, "CTFhFdXP", 1),
		"trailing field":   good + "$",
	} {
		if _, err := parsePHC(s); err == nil {
			t.Errorf("%s: %q was taken", name, s)
		}
	}
}

func FuzzParsePHC(f *testing.F) {
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc")
	f.Add("$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePHC(s)
		if err != nil {
			return
		}
		if p.String() != s {
			t.Fatalf("%q came back as %q", s, p)
		}
		if p.cost.MemoryKiB > maxMemoryKiB || p.cost.MemoryKiB < 8*uint32(p.cost.Threads) || p.cost.Passes > maxPasses {
			t.Fatalf("out of bounds: %+v", p.cost)
		}
	})
}

func FuzzParseSecret(f *testing.F) {
	s, _ := newSecret()
	f.Add(s)
	f.Add("sd_")
	f.Fuzz(func(t *testing.T, s string) {
		hash, ok := parseSecret(s)
		if !ok {
			return
		}
		for i := range s { // exactly one text has this hash
			changed := []byte(s)
			changed[i] ^= 1
			if h, ok := parseSecret(string(changed)); ok && h == hash {
				t.Fatalf("%q and %q are the same secret", s, changed)
			}
		}
	})
}
