package syntax

import (
	"strings"

	"smartdrive/internal/intake/invoice"
)

// The scheme of a tax. EN 16931 knows the categories of VAT; a category of another tax, or of one
// that is not named, does not count as one.

func schemeOf(b *builder) any { return &b.scheme }

// isVAT reports whether the scheme that was read is VAT, and forgets it.
func (b *builder) isVAT() bool {
	scheme := b.scheme
	b.scheme = ""
	if b.doc.Written.Syntax == invoice.CIISyntax && scheme != "" && scheme != "VAT" {
		b.breach("CII-DT-037", nil)
	}
	return strings.EqualFold(scheme, "VAT")
}

func lineScheme(b *builder) {
	if !b.isVAT() && len(b.lines) == 1 {
		b.breach("BR-CO-04", nil)
	}
}

func breakdownScheme(b *builder) {
	if !b.isVAT() {
		b.breach("BR-47", nil)
	}
}

func allowanceScheme(b *builder) {
	rule := "BR-32"
	if b.allowance.Charge {
		rule = "BR-37"
	}
	if !b.isVAT() {
		b.breach(rule, nil)
	}
}
