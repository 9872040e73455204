package invoice

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// Decimal is an exact decimal number, or no number at all: the zero value is "not given", which
// counts as 0 in arithmetic and is left out of JSON. There is no rounding except in Round, and no
// limit on the results of arithmetic; what is read has at most MaxDigits digits. A value has one
// form: trailing zeros after the point are dropped. Compare with Equal or Cmp, not with ==.
type Decimal struct {
	coef  int64    // the value is coef / 10^scale, unless wide is set
	wide  *big.Int // the coefficient when it does not fit in coef; never changed
	scale uint8    // enough for products of several numbers, each of at most MaxDigits digits
	given bool

	written uint8 // decimals of the text that it was read from, trailing zeros included; 0: it was computed
}

// NewDecimal returns coef / 10^scale: NewDecimal(1250, 2) is 12.5.
func NewDecimal(coef int64, scale int) Decimal {
	return Decimal{coef: coef, scale: uint8(scale), given: true}.trim()
}

// Given reports whether there is a number.
func (d Decimal) Given() bool { return d.given }

// Sign returns -1, 0 or 1.
func (d Decimal) Sign() int {
	if d.wide != nil {
		return d.wide.Sign()
	}
	return cmp.Compare(d.coef, 0)
}

// Places returns the number of decimals: 2 for 12.50's 12.5 is 1.
func (d Decimal) Places() int { return int(d.scale) }

// PlacesWritten is Places with the trailing zeros of the text that the number was read from: 3 for
// 12.500. Of a number that was computed it is Places.
func (d Decimal) PlacesWritten() int { return max(d.Places(), int(d.written)) }

// Neg returns -d.
func (d Decimal) Neg() Decimal {
	if d.wide == nil && d.coef != math.MinInt64 {
		return Decimal{coef: -d.coef, scale: d.scale, given: d.given}
	}
	return fromBig(new(big.Int).Neg(d.big()), d.scale)
}

// Abs returns the value without its sign.
func (d Decimal) Abs() Decimal {
	if d.Sign() < 0 {
		return d.Neg()
	}
	return d
}

// Add returns d + e: a number, also when neither is given.
func (d Decimal) Add(e Decimal) Decimal {
	if a, b, scale, ok := align(d, e); ok {
		sum := a + b
		if (sum > a) == (b > 0) {
			return Decimal{coef: sum, scale: scale, given: true}.trim()
		}
	}
	a, b, scale := alignBig(d, e)
	return fromBig(new(big.Int).Add(a, b), scale)
}

// Sub returns d - e.
func (d Decimal) Sub(e Decimal) Decimal { return d.Add(e.Neg()) }

// Mul returns d × e, exactly.
func (d Decimal) Mul(e Decimal) Decimal {
	scale := d.scale + e.scale
	if d.wide == nil && e.wide == nil {
		high, low := bits.Mul64(magnitude(d.coef), magnitude(e.coef))
		if high == 0 && low <= math.MaxInt64 {
			product := int64(low)
			if (d.coef < 0) != (e.coef < 0) {
				product = -product
			}
			return Decimal{coef: product, scale: scale, given: true}.trim()
		}
	}
	return fromBig(new(big.Int).Mul(d.big(), e.big()), scale)
}

// Percent returns d × percent / 100, exactly.
func (d Decimal) Percent(percent Decimal) Decimal { return d.Mul(percent).Mul(NewDecimal(1, 2)) }

// Cmp compares the values; "not given" is 0.
func (d Decimal) Cmp(e Decimal) int {
	if a, b, _, ok := align(d, e); ok {
		return cmp.Compare(a, b)
	}
	a, b, _ := alignBig(d, e)
	return a.Cmp(b)
}

// Equal reports whether both say the same: the same number, or both nothing.
func (d Decimal) Equal(e Decimal) bool { return d.given == e.given && d.Cmp(e) == 0 }

// Round returns the value with at most this many decimals, half away from zero, as EN 16931 and its
// validators round.
func (d Decimal) Round(places int) Decimal {
	if int(d.scale) <= places {
		return d
	}
	unit := pow10(int(d.scale) - places)
	quotient, rest := new(big.Int).QuoRem(d.big(), unit, new(big.Int))
	if rest.Abs(rest).Lsh(rest, 1).Cmp(unit) >= 0 {
		quotient.Add(quotient, big.NewInt(int64(d.Sign())))
	}
	return fromBig(quotient, uint8(places))
}

// Sum adds numbers; of none it is 0.
func Sum(of ...Decimal) Decimal {
	total := NewDecimal(0, 0)
	for _, d := range of {
		total = total.Add(d)
	}
	return total
}

func (d Decimal) big() *big.Int {
	if d.wide != nil {
		return d.wide
	}
	return big.NewInt(d.coef)
}

// trim drops trailing zeros after the point.
func (d Decimal) trim() Decimal {
	for d.scale > 0 && d.coef%10 == 0 {
		d.coef /= 10
		d.scale--
	}
	return d
}

var ten = big.NewInt(10)

func pow10(n int) *big.Int { return new(big.Int).Exp(ten, big.NewInt(int64(n)), nil) }

// fromBig makes a Decimal in its one form.
func fromBig(coef *big.Int, scale uint8) Decimal {
	quotient, rest := new(big.Int), new(big.Int)
	for scale > 0 && !coef.IsInt64() {
		if quotient.QuoRem(coef, ten, rest); rest.Sign() != 0 {
			break
		}
		coef, quotient = quotient, new(big.Int)
		scale--
	}
	if coef.IsInt64() {
		return Decimal{coef: coef.Int64(), scale: scale, given: true}.trim()
	}
	return Decimal{wide: coef, scale: scale, given: true}
}

// powers are the powers of ten that fit in an int64.
var powers = [...]int64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// align returns both coefficients at the larger scale, if they fit.
func align(d, e Decimal) (a, b int64, scale uint8, ok bool) {
	if d.wide != nil || e.wide != nil {
		return 0, 0, 0, false
	}
	scale = max(d.scale, e.scale)
	a, ok = widen(d.coef, scale-d.scale)
	if !ok {
		return 0, 0, 0, false
	}
	b, ok = widen(e.coef, scale-e.scale)
	return a, b, scale, ok
}

func widen(coef int64, by uint8) (int64, bool) {
	if int(by) >= len(powers) {
		return 0, coef == 0
	}
	high, low := bits.Mul64(magnitude(coef), uint64(powers[by]))
	return coef * powers[by], high == 0 && low <= math.MaxInt64
}

func alignBig(d, e Decimal) (a, b *big.Int, scale uint8) {
	scale = max(d.scale, e.scale)
	return new(big.Int).Mul(d.big(), pow10(int(scale-d.scale))), new(big.Int).Mul(e.big(), pow10(int(scale-e.scale))), scale
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
