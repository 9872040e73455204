package invoice

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
)

// MaxDigits is how many digits a number may have that is read: more than twice those of any sum of
// money, few enough that nobody makes arithmetic slow with one.
const MaxDigits = 40

// ErrDecimal is what ParseDecimal returns for text that is not a decimal number: exponents, groups
// of thousands, NaN.
var ErrDecimal = errors.New("not a decimal number")

// ParseDecimal reads an xs:decimal: a sign, digits, a point, digits. Surrounding space is the
// caller's.
func ParseDecimal[T string | []byte](text T) (Decimal, error) {
	digits, negative := text, false
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		negative, digits = digits[0] == '-', digits[1:]
	}
	coef, n, scale, point := uint64(0), 0, 0, false
	for i := range len(digits) {
		switch c := digits[i]; {
		case c == '.' && !point:
			point = true
		case c < '0' || c > '9':
			return Decimal{}, ErrDecimal
		default:
			coef = coef*10 + uint64(c-'0') // wrong beyond 18 digits, and not used then
			n++
			if point {
				scale++
			}
		}
	}
	switch {
	case n == 0:
		return Decimal{}, ErrDecimal
	case n > MaxDigits:
		return Decimal{}, fmt.Errorf("%d digits, more than %d: %w", n, MaxDigits, ErrDecimal)
	case n > 18:
		return parseWide(string(text), uint8(scale))
	case negative:
		return Decimal{coef: -int64(coef), scale: uint8(scale), given: true, written: uint8(scale)}.trim(), nil
	}
	return Decimal{coef: int64(coef), scale: uint8(scale), given: true, written: uint8(scale)}.trim(), nil
}

// parseWide reads what has more digits than an int64 holds, and has been checked.
func parseWide(text string, scale uint8) (Decimal, error) {
	digits := make([]byte, 0, len(text))
	for _, c := range []byte(text) {
		if c != '.' && c != '+' {
			digits = append(digits, c)
		}
	}
	coef, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return Decimal{}, ErrDecimal
	}
	d := fromBig(coef, scale)
	d.written = scale
	return d, nil
}

// AppendText appends the one text of the number: no exponent, no needless zeros, "0.5", "-12",
// nothing when not given.
func (d Decimal) AppendText(to []byte) ([]byte, error) {
	if !d.given {
		return to, nil
	}
	if d.Sign() < 0 {
		to = append(to, '-')
	}
	var digits []byte
	var room [24]byte
	if d.wide != nil {
		digits = new(big.Int).Abs(d.wide).Append(nil, 10)
	} else {
		digits = strconv.AppendUint(room[:0], magnitude(d.coef), 10)
	}
	scale := int(d.scale)
	if scale == 0 {
		return append(to, digits...), nil
	}
	if len(digits) <= scale {
		to = append(to, '0', '.')
		for range scale - len(digits) {
			to = append(to, '0')
		}
		return append(to, digits...), nil
	}
	to = append(to, digits[:len(digits)-scale]...)
	to = append(to, '.')
	return append(to, digits[len(digits)-scale:]...), nil
}

// String returns the text of AppendText.
func (d Decimal) String() string {
	text, _ := d.AppendText(nil)
	return string(text)
}

// MarshalText returns the text of AppendText: in JSON a string, which nobody reads as a float by
// accident.
func (d Decimal) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// UnmarshalText reads what ParseDecimal does; nothing is "not given".
func (d *Decimal) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Decimal{}
		return nil
	}
	parsed, err := ParseDecimal(text)
	if err != nil {
		return fmt.Errorf("%.60q: %w", text, err)
	}
	*d = parsed
	return nil
}

// UnmarshalJSON also takes a bare number, by its digits as written.
func (d *Decimal) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	if len(text) >= 2 && text[0] == '"' {
		text = text[1 : len(text)-1] // an escape would be no digit anyway
	}
	return d.UnmarshalText(text)
}
