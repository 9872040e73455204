package invoice

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
)

// dec parses a decimal.
func dec(t *testing.T, text string) Decimal {
	t.Helper()
	d, err := ParseDecimal(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return d
}

func TestDecimalsHaveOneForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "+1": "1", "1.": "1", ".5": "0.5", "-.5": "-0.5", "10.00": "10", "0.10": "0.1", "007": "7", "100": "100",
		"0.000000000000000001": "0.000000000000000001", "10.000000000000000000": "10", "999999999999999999": "999999999999999999",
		"9223372036854775808": "9223372036854775808", "-9223372036854775808": "-9223372036854775808",
		"12345678901234567890.12345678901234567890": "12345678901234567890.1234567890123456789",
		"0000000000000000000000000000000000000001":  "1", "-0.0000000000000000000000000000010": "-0.000000000000000000000000000001",
	} {
		d := dec(t, in)
		if d.String() != want || !d.Given() || !d.Equal(dec(t, want)) {
			t.Errorf("%q is %s, want %s", in, d, want)
		}
	}
	if (Decimal{}).String() != "" || (Decimal{}).Given() || (Decimal{}).Equal(NewDecimal(0, 0)) {
		t.Error("no number is a number")
	}
}

func TestInvalidDecimals(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "-", ".", "1e3", "1,5", "1 000", "0x10", "NaN", "--1", "1.2.3", "１", strings.Repeat("9", MaxDigits+1)} {
		if d, err := ParseDecimal(in); !errors.Is(err, ErrDecimal) {
			t.Errorf("%q is %v, error %v", in, d, err)
		}
	}
}

func TestRoundingIsHalfAwayFromZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in     string
		places int
		want   string
	}{
		{"1.005", 2, "1.01"},
		{"-1.005", 2, "-1.01"},
		{"1.0049999", 2, "1"},
		{"0.5", 0, "1"},
		{"-0.5", 0, "-1"},
		{"2.5", 0, "3"},
		{"1.23", 5, "1.23"},
		{"99999999999999999999.995", 2, "100000000000000000000"},
		{"0.001", 2, "0"},
		{"25.475", 2, "25.48"},
	} {
		if got := dec(t, c.in).Round(c.places).String(); got != c.want {
			t.Errorf("%s rounded to %d places is %s, want %s", c.in, c.places, got, c.want)
		}
	}
}

func TestDecimalsInJSON(t *testing.T) {
	t.Parallel()
	var v struct {
		A, B, C, D Decimal `json:",omitzero"`
	}
	if err := json.Unmarshal([]byte(`{"A":"0.10","B":12.50,"C":null}`), &v); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(v); err != nil || string(text) != `{"A":"0.1","B":"12.5"}` {
		t.Errorf("%s, error %v", text, err)
	}
	for _, bad := range []string{`{"A":1e3}`, `{"A":"1e3"}`, `{"A":true}`, `{"A":"\u0031"}`} {
		if err := json.Unmarshal([]byte(bad), &v); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

// FuzzDecimal compares the arithmetic with math/big.
func FuzzDecimal(f *testing.F) {
	for _, pair := range [][2]string{
		{"1.10", "-2"},
		{"9223372036854775807", "1"},
		{"-9223372036854775808", "-1"},
		{"0.000000000000000001", "999999999999999999"},
		{"12345678901234567890.5", "0.00000000000000000000000001"},
		{"0", "-0.0"},
		{"922337203685477580.7", "0.1"},
		{"3037000500", "3037000500"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := ParseDecimal(a)
		y, errY := ParseDecimal(b)
		if errX != nil || errY != nil {
			return
		}
		rx, ry := rat(t, x), rat(t, y)
		if again, err := ParseDecimal(x.String()); err == nil && !again.Equal(x) {
			t.Errorf("%s is read as %s", x, again)
		}
		for name, c := range map[string]struct {
			got  Decimal
			want *big.Rat
		}{
			"+": {x.Add(y), new(big.Rat).Add(rx, ry)}, "-": {x.Sub(y), new(big.Rat).Sub(rx, ry)}, "*": {x.Mul(y), new(big.Rat).Mul(rx, ry)},
		} {
			if rat(t, c.got).Cmp(c.want) != 0 {
				t.Errorf("%s %s %s is %s, want %s", x, name, y, c.got, c.want)
			}
			if text := c.got.String(); strings.Contains(text, ".") && strings.HasSuffix(text, "0") || text == "-0" {
				t.Errorf("%s %s %s is written %s", x, name, y, text)
			}
		}
		if x.Cmp(y) != rx.Cmp(ry) || x.Sign() != rx.Sign() {
			t.Errorf("%s and %s compare as %d, want %d", x, y, x.Cmp(y), rx.Cmp(ry))
		}
		half := big.NewRat(1, 200)
		if off := new(big.Rat).Sub(rat(t, x.Round(2)), rx); off.Abs(off).Cmp(half) > 0 || x.Round(2).Places() > 2 {
			t.Errorf("%s rounded is %s", x, x.Round(2))
		}
	})
}

// rat returns d as a rational number.
func rat(t *testing.T, d Decimal) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(d.String())
	if !ok {
		t.Fatalf("%q is no number", d)
	}
	return r
}
