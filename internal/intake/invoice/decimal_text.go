package invoice

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
)

// MaxDigits is the maximum number of digits of a parsed number: more than twice those of any sum of
// money, and few enough that an attacker cannot slow down arithmetic.
const MaxDigits = 40

// ErrDecimal is the error of ParseDecimal for a text that is not a decimal number, such as one with
// an exponent, a group separator or NaN.
var ErrDecimal = errors.New("not a decimal number")

// ParseDecimal parses an xs:decimal: an optional sign, digits, an optional point and digits. White
// space, an empty text and more than MaxDigits digits give ErrDecimal.
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
			coef = coef*10 + uint64(c-'0') // overflows beyond 18 digits, and is not used then
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

// parseWide parses a valid text with more digits than an int64 holds.
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

// AppendText appends the unique text of the number, without exponent and trailing zeros, such as
// "0.5" or "-12". If d is not given, it appends nothing. The error is always nil.
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

// MarshalText returns the text of AppendText. In JSON the number is a string, so that no program
// reads it as a float by accident.
func (d Decimal) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// UnmarshalText parses a number as ParseDecimal does; an empty text means "not given".
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

// UnmarshalJSON parses a string, or a bare number by its digits. null leaves d unchanged.
func (d *Decimal) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	if len(text) >= 2 && text[0] == '"' {
		text = text[1 : len(text)-1] // no need to decode escapes: an escape is not a digit
	}
	return d.UnmarshalText(text)
}
