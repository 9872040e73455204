package syntax

import (
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// schemeOf returns the place of the current tax scheme. EN 16931 defines the categories of VAT
// only, so a category of another or an unnamed tax is invalid.

// schemeOf returns where the scheme of the current identifier is stored.
func schemeOf(b *builder) any { return &b.scheme }

// isVAT reports whether the current tax scheme is VAT, and clears it.
func (b *builder) isVAT() bool {
	scheme := b.scheme
	b.scheme = ""
	if b.doc.Written.Syntax == invoice.CIISyntax && scheme != "" && scheme != "VAT" {
		b.recordBreach("CII-DT-037", nil)
	}
	return strings.EqualFold(scheme, "VAT")
}

// lineScheme records a breach if the tax category of a top-level line is not of VAT.
func lineScheme(b *builder) {
	if !b.isVAT() && len(b.lines) == 1 {
		b.recordBreach("BR-CO-04", nil)
	}
}

// breakdownScheme records a breach if a tax breakdown is not of VAT.
func breakdownScheme(b *builder) {
	if !b.isVAT() {
		b.recordBreach("BR-47", nil)
	}
}

// allowanceScheme records a breach if the tax category of an allowance or charge is not of VAT.
func allowanceScheme(b *builder) {
	rule := "BR-32"
	if b.allowance.Charge {
		rule = "BR-37"
	}
	if !b.isVAT() {
		b.recordBreach(rule, nil)
	}
}
