package rule

import (
	"regexp"
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// Profile names a set of additional rules that a recipient may require.
type Profile string

// Profiles.
const (
	Core      Profile = ""          // EN 16931 only
	XRechnung Profile = "xrechnung" // Germany: XRechnung 3 (BR-DE)
	Peppol    Profile = "peppol"    // Peppol BIS Billing 3.0
)

// Profiles returns all profiles other than Core.
func Profiles() []Profile { return []Profile{XRechnung, Peppol} }

// ValidateAs returns the findings of Validate and those of the rules of a profile. Profile rules do
// not apply to Chinese invoices.
func ValidateAs(d *invoice.Document, p Profile) []Finding {
	findings := Validate(d)
	if d.Profile == invoice.ProfileFapiao {
		return findings
	}
	for _, r := range ProfileRules(p) {
		if f, broken := r.finding(d); broken {
			findings = append(findings, f)
		}
	}
	return limitFindings(findings)
}

// xrechnung holds the rules of XRechnung 3.
var xrechnung = slices.Concat(xrechnungParties, xrechnungPayments)

// xrechnungParties holds the rules of XRechnung on parties and on the document as a whole.
var xrechnungParties = []Rule{
	german("2", "The seller has a contact (BG-6)", func(d *document) bool { return d.Seller.Contact != nil }),
	german("3", "The seller's address has a city (BT-37)", func(d *document) bool { return addressHas(d.Seller.Address, cityOf) }),
	german("4", "The seller's address has a postal code (BT-38)", func(d *document) bool { return addressHas(d.Seller.Address, zoneOf) }),
	german("5", "The seller's contact has a name (BT-41)", contactHas(func(c *invoice.Contact) string { return c.Name })),
	german("6", "The seller's contact has a telephone number (BT-42)", contactHas(func(c *invoice.Contact) string { return c.Phone })),
	german("7", "The seller's contact has an e-mail address (BT-43)", contactHas(func(c *invoice.Contact) string { return c.Email })),
	german("8", "The buyer's address has a city (BT-52)", func(d *document) bool { return addressHas(d.Buyer.Address, cityOf) }),
	german("9", "The buyer's address has a postal code (BT-53)", func(d *document) bool { return addressHas(d.Buyer.Address, zoneOf) }),
	german("10", "A deliver-to address has a city (BT-77)", func(d *document) bool {
		return d.Delivery == nil || addressHas(d.Delivery.Address, cityOf)
	}),
	german("11", "A deliver-to address has a postal code (BT-78)", func(d *document) bool {
		return d.Delivery == nil || addressHas(d.Delivery.Address, zoneOf)
	}),
	german("14", "A VAT breakdown has a rate (BT-119)", func(d *document) bool {
		return !slices.ContainsFunc(d.Taxes, func(t tax) bool { return !t.Rate.Given() && t.Category != "O" })
	}),
	german("15", "An invoice has the buyer's reference, such as a Leitweg-ID (BT-10)", func(d *document) bool { return d.BuyerReference != "" }),
	german("16", "A seller of what has VAT, or is exempt from it, has a VAT identifier, a tax number or a representative (BT-31, BT-32, BG-11)", germanTaxID),
	germanWarning("17", "The type code (BT-3) is 326, 380, 381, 384, 389, 875, 876 or 877", func(d *document) bool {
		return list("326 380 381 384 389 875 876 877").has(d.Type)
	}),
	germanWarning("21", "The specification identifier (BT-24) is that of XRechnung", func(d *document) bool {
		return strings.HasPrefix(d.Profile, invoice.ProfileCore+"#compliant#urn:xeinkauf.de:kosit:xrechnung_")
	}),
	german("22", "Embedded files have different names (BT-125)", differentNames),
	germanWarning("26", "A corrected invoice (384) refers to the one before (BG-3)", func(d *document) bool { return d.Type != "384" || len(d.Preceding) > 0 }),
	germanWarning("27", "A telephone number has at least three digits (BT-42)", contactHas(func(c *invoice.Contact) string {
		if threeDigits.MatchString(c.Phone) || c.Phone == "" {
			return "right"
		}
		return ""
	})),
	germanWarning("28", "An e-mail address has one @ with a name before and behind it (BT-43)", contactHas(func(c *invoice.Contact) string {
		if mailForm.MatchString(c.Email) || c.Email == "" {
			return "right"
		}
		return ""
	})),
}

// xrechnungPayments holds the rules of XRechnung on payments.
var xrechnungPayments = []Rule{
	german("1", "An invoice has a payment instruction (BG-16)", func(d *document) bool { return len(d.Payments) > 0 }),
	german("18", "A discount (#SKONTO#) or interest (#VERZUG#) in the terms of payment has the form #SKONTO#TAGE=14#PROZENT=2.00# (BT-20)", discountForm),
	german("23-a", "A credit transfer (30, 58) has an account (BG-17)", paidBy("30 58", func(p *invoice.Payment) bool { return p.Transfer })),
	german("23-b", "A credit transfer (30, 58) has no card and no account to debit", paidBy("30 58", func(p *invoice.Payment) bool { return p.Card == "" && p.DebitAccount == "" })),
	german("24-a", "A payment by card (48, 54, 55) has a card (BG-18)", paidBy("48 54 55", func(p *invoice.Payment) bool { return p.Card != "" })),
	german("24-b", "A payment by card (48, 54, 55) has no account", paidBy("48 54 55", func(p *invoice.Payment) bool { return !p.Transfer && p.DebitAccount == "" })),
	german("25-a", "A direct debit (59) has an account to debit (BG-19)", paidBy("59", func(p *invoice.Payment) bool { return p.DebitAccount != "" })),
	german("25-b", "A direct debit (59) has no other account and no card", paidBy("59", func(p *invoice.Payment) bool { return !p.Transfer && p.Card == "" })),
	german("30", "A direct debit names the creditor (BT-90)", func(d *document) bool { return d.Mandate == "" || d.Creditor != "" }),
	german("31", "A direct debit names the account to debit (BT-91)", func(d *document) bool {
		return d.Mandate == "" || slices.ContainsFunc(d.Payments, func(p invoice.Payment) bool { return p.DebitAccount != "" })
	}),
}

// german returns the fatal rule BR-DE-n.
func german(n, text string, holds func(*document) bool) Rule {
	return Rule{ID: "BR-DE-" + n, Severity: Fatal, Text: text, document: holds}
}

// germanWarning returns the rule BR-DE-n as a warning.
func germanWarning(n, text string, holds func(*document) bool) Rule {
	return Rule{ID: "BR-DE-" + n, Severity: Warning, Text: text, document: holds}
}

// cityOf returns the city of an address, which must not be nil.
func cityOf(a *invoice.Address) string { return a.City }

// zoneOf returns the postal code of an address, which must not be nil.
func zoneOf(a *invoice.Address) string { return a.Zone }

// addressHas reports whether a part of an address is present. A nil address passes, because other
// rules require it.
func addressHas(a *invoice.Address, what func(*invoice.Address) string) bool {
	return a == nil || what(a) != ""
}

// contactHas returns a check that a part of the seller's contact is present. A nil contact passes.
func contactHas(what func(*invoice.Contact) string) func(*document) bool {
	return func(d *document) bool { return d.Seller.Contact == nil || what(d.Seller.Contact) != "" }
}

// paidBy returns a check on all payments whose code is in the list codes.
func paidBy(codes string, holds func(*invoice.Payment) bool) func(*document) bool {
	those := list(codes)
	return payments(func(p *invoice.Payment) bool { return !those.has(p.Code) || holds(p) })
}

var (
	// threeDigits matches a text with at least three digits.
	threeDigits = regexp.MustCompile(`(\d[^\d]*){3}`)
	// mailForm matches a text with one @ between other characters.
	mailForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+$`)
	// discount matches a line of payment terms about cash discounts or late payment (BR-DE-18).
	discount = regexp.MustCompile(`^#(SKONTO|VERZUG)#TAGE=[0-9]+#PROZENT=[0-9]+\.[0-9]{2}(#BASISBETRAG=-?[0-9]+\.[0-9]{2})?#$`)
)

// discountForm reports whether all lines of the payment terms that begin with # have the required
// form.
func discountForm(d *document) bool {
	for line := range strings.Lines(d.PaymentTerms) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") && !discount.MatchString(line) {
			return false
		}
	}
	return true
}

// germanTaxID checks BR-DE-16: true if a seller's tax identifier or a representative is given, or
// no VAT category of the document needs one.
func germanTaxID(d *document) bool {
	if d.Seller.VATID != "" || d.Seller.TaxID != "" || d.TaxRepresentative != nil {
		return true
	}
	return !slices.ContainsFunc(strings.Fields("S Z E AE K G L M"), func(code string) bool { return hasCategoryCode(d, code) })
}

// differentNames reports whether no two attachments have the same non-empty name.
func differentNames(d *document) bool {
	seen := map[string]bool{}
	for i := range d.Attachments {
		name := d.Attachments[i].Name
		if name != "" && seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}

// ProfileRules returns the rules of a profile without those of EN 16931; none for Core or an
// unknown profile.
func ProfileRules(p Profile) []Rule {
	switch p {
	case Core:
		return nil
	case XRechnung:
		return xrechnung
	case Peppol:
		return peppol
	}
	return nil
}
