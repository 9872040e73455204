package invoice

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// Decimal is an exact decimal number, or no number: the zero value means "not given", counts as 0
// in arithmetic and is left out of JSON. Arithmetic never rounds (except Round) and has no range
// limit; parsed numbers have at most MaxDigits digits. The internal form is unique, without
// trailing zeros after the point. Compare with Equal or Cmp, not with ==.
type Decimal struct {
	coef  int64    // value is coef / 10^scale, unless wide is set
	wide  *big.Int // coefficient if it does not fit in coef; immutable
	scale uint8    // large enough for products of several numbers of MaxDigits digits
	given bool

	written uint8 // decimals in the parsed text, including trailing zeros; 0: the number was computed
}

// NewDecimal returns coef / 10^scale. NewDecimal(1250, 2) is 12.5.
func NewDecimal(coef int64, scale int) Decimal {
	return Decimal{coef: coef, scale: uint8(scale), given: true}.trim()
}

// Given reports whether d is a number; the zero Decimal is absent, not 0.
func (d Decimal) Given() bool { return d.given }

// Sign returns -1, 0 or 1.
func (d Decimal) Sign() int {
	if d.wide != nil {
		return d.wide.Sign()
	}
	return cmp.Compare(d.coef, 0)
}

// Places returns the number of decimals without trailing zeros: 1 for 12.50.
func (d Decimal) Places() int { return int(d.scale) }

// PlacesWritten returns the number of decimals in the parsed text, including trailing zeros: 3 for
// 12.500. For a computed number it equals Places.
func (d Decimal) PlacesWritten() int { return max(d.Places(), int(d.written)) }

// Neg returns -d.
func (d Decimal) Neg() Decimal {
	if d.wide == nil && d.coef != math.MinInt64 {
		return Decimal{coef: -d.coef, scale: d.scale, given: d.given}
	}
	return fromBig(new(big.Int).Neg(d.big()), d.scale)
}

// Abs returns the absolute value of d.
func (d Decimal) Abs() Decimal {
	if d.Sign() < 0 {
		return d.Neg()
	}
	return d
}

// Add returns d + e. The result is always a number, even if neither operand is given.
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

// Cmp returns -1, 0 or 1 for d < e, d = e or d > e; "not given" counts as 0.
func (d Decimal) Cmp(e Decimal) int {
	if a, b, _, ok := align(d, e); ok {
		return cmp.Compare(a, b)
	}
	a, b, _ := alignBig(d, e)
	return a.Cmp(b)
}

// Equal reports whether d and e are the same number, or both not given.
func (d Decimal) Equal(e Decimal) bool { return d.given == e.given && d.Cmp(e) == 0 }

// Round returns d with at most places decimals, rounded half away from zero, as EN 16931 and its
// validators do.
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

// Sum returns the sum of the numbers; 0 without arguments.
func Sum(of ...Decimal) Decimal {
	total := NewDecimal(0, 0)
	for _, d := range of {
		total = total.Add(d)
	}
	return total
}

// big returns the coefficient of d. The caller must not change it.
func (d Decimal) big() *big.Int {
	if d.wide != nil {
		return d.wide
	}
	return big.NewInt(d.coef)
}

// trim returns d without trailing zeros after the point. It ignores wide.
func (d Decimal) trim() Decimal {
	for d.scale > 0 && d.coef%10 == 0 {
		d.coef /= 10
		d.scale--
	}
	return d
}

// ten is the number 10; it must not be changed.
var ten = big.NewInt(10)

// pow10 returns 10^n.
func pow10(n int) *big.Int { return new(big.Int).Exp(ten, big.NewInt(int64(n)), nil) }

// fromBig returns coef / 10^scale in its unique form. It may keep coef.
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

// powers holds the powers of ten that fit in an int64.
var powers = [...]int64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// align returns both coefficients at the larger scale. If one does not fit in an int64, ok is
// false.
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

// widen returns coef × 10^by, and whether the product fits in an int64.
func widen(coef int64, by uint8) (int64, bool) {
	if int(by) >= len(powers) {
		return 0, coef == 0
	}
	high, low := bits.Mul64(magnitude(coef), uint64(powers[by]))
	return coef * powers[by], high == 0 && low <= math.MaxInt64
}

// alignBig returns both coefficients at the larger scale, as new big integers that the caller may
// change, and that scale.
func alignBig(d, e Decimal) (a, b *big.Int, scale uint8) {
	scale = max(d.scale, e.scale)
	return new(big.Int).Mul(d.big(), pow10(int(scale-d.scale))), new(big.Int).Mul(e.big(), pow10(int(scale-e.scale))), scale
}

// magnitude returns the absolute value of n, also of the smallest int64.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
