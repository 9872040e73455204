package rule

import (
	"regexp"
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// ProfilePeppol is the specification identifier of Peppol BIS Billing 3.0 (BT-24).
const ProfilePeppol = invoice.ProfileCore + "#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0"

// peppol holds the published rules of Peppol BIS Billing 3.0 that neither EN 16931 nor our own
// rules cover; peppolStates explains the others. It holds the rules for all countries, without
// those of single countries (DK-R, GR-R, ...).
var peppol = slices.Concat(peppolDocument, peppolAmounts, peppolLines, peppolCodes(), peppolNumbers)

// peppolDocument holds the rules on terms of the document.
var peppolDocument = []Rule{
	peppolRule("R001", "An invoice names its business process (BT-23)", func(d *document) bool { return d.Process != "" }),
	peppolRule("R002", "An invoice has at most one note, unless seller and buyer are German (BT-22)", func(d *document) bool {
		return len(d.Notes) <= 1 || countryOf(&d.Seller) == "DE" && countryOf(&d.Buyer) == "DE"
	}),
	peppolRule("R003", "An invoice has the buyer's reference or the number of an order (BT-10, BT-13)", func(d *document) bool {
		return d.BuyerReference != "" || d.PurchaseOrder != ""
	}),
	peppolRule("R004", "The specification identifier (BT-24) is that of Peppol BIS Billing 3.0", func(d *document) bool {
		return strings.HasPrefix(d.Profile, ProfilePeppol)
	}),
	peppolRule("R005", "The currency for accounting VAT (BT-6) is not that of the invoice (BT-5)", func(d *document) bool {
		return d.TaxCurrency == "" || d.TaxCurrency != d.Currency
	}),
	peppolRule("R007", "The business process (BT-23) has the form urn:fdc:peppol.eu:2017:poacc:billing:NN:1.0", func(d *document) bool {
		return d.Process == "" || peppolProcess.MatchString(d.Process)
	}),
	peppolRule("R010", "The buyer has an electronic address (BT-49)", func(d *document) bool { return d.Buyer.Endpoint.ID != "" }),
	peppolRule("R020", "The seller has an electronic address (BT-34)", func(d *document) bool { return d.Seller.Endpoint.ID != "" }),
	peppolRule("R055", "The total of VAT (BT-110) and that in the currency for accounting (BT-111) have the same sign", func(d *document) bool {
		return !d.Totals.TaxInCurrency.Given() || d.Totals.Tax.Sign()*d.Totals.TaxInCurrency.Sign() >= 0
	}),
	peppolRule("R061", "A direct debit (49, 59) names its mandate (BT-89)", func(d *document) bool {
		return d.Mandate != "" || payments(func(p *invoice.Payment) bool { return p.Code != "49" && p.Code != "59" })(d)
	}),
	peppolRule("P0100", "The type code of an invoice (BT-3) is one that Peppol billing takes", func(d *document) bool {
		return d.Written.CreditNote || creditTypes.has(d.Type) && d.Written.Syntax != invoice.UBLSyntax || peppolInvoices.has(d.Type)
	}),
	peppolRule("P0101", "The type code of a credit note (BT-3) is one that Peppol billing takes", func(d *document) bool {
		return !d.Written.CreditNote && (!creditTypes.has(d.Type) || d.Written.Syntax == invoice.UBLSyntax) || peppolCredits.has(d.Type)
	}),
}

var (
	// peppolProcess matches the process identifiers of Peppol BIS Billing 3.0.
	peppolProcess = regexp.MustCompile(`^urn:fdc:peppol\.eu:2017:poacc:billing:[0-9]{2}:1\.0$`)
	// peppolInvoices are the type codes that Peppol allows for invoices.
	peppolInvoices = list("71 80 82 84 102 218 219 326 331 380 382 383 384 386 388 393 395 553 575 623 780 817 870 875 876 877")
	// peppolCredits are the type codes that Peppol allows for credit notes.
	peppolCredits = list("81 83 381 396 532")
)

// peppolAmounts holds the rules on allowances and charges.
var peppolAmounts = []Rule{
	peppolAllowance("R040", "The amount of an allowance or charge is its base times its percentage, within 0.02", func(a *allowance) bool {
		return !a.Base.Given() || !a.Percent.Given() || near(a.Amount, a.Base.Percent(a.Percent), cents(2))
	}),
	peppolAllowance("R041", "An allowance or charge with a percentage has a base", func(a *allowance) bool { return a.Base.Given() || !a.Percent.Given() }),
	peppolAllowance("R042", "An allowance or charge with a base has a percentage", func(a *allowance) bool { return !a.Base.Given() || a.Percent.Given() }),
}

// peppolLines holds the rules on lines.
var peppolLines = []Rule{
	peppolLine("R046", "The net price (BT-146) is the gross price (BT-148) less the discount (BT-147)", func(_ *document, l *line) bool {
		return !l.GrossPrice.Given() || l.GrossBaseQuantity.Given() || l.Price.Cmp(l.GrossPrice.Sub(l.Discount)) == 0
	}),
	peppolLine("R110", "The period of a line begins within that of the invoice (BT-134, BT-73)", func(d *document, l *line) bool {
		return d.Period == nil || l.Period == nil || d.Period.Start == 0 || l.Period.Start == 0 || l.Period.Start >= d.Period.Start
	}),
	peppolLine("R111", "The period of a line ends within that of the invoice (BT-135, BT-74)", func(d *document, l *line) bool {
		return d.Period == nil || l.Period == nil || d.Period.End == 0 || l.Period.End == 0 || l.Period.End <= d.Period.End
	}),
	peppolLine("R120", "A line's net amount (BT-131) is its quantity times its price, less allowances, plus charges, within 0.02", func(_ *document, l *line) bool {
		return !l.Quantity.Given() || !l.Price.Given() || netAsCalculated(l)
	}),
	peppolLine("R121", "The base quantity of a price (BT-149) is more than 0", func(_ *document, l *line) bool {
		return !l.BaseQuantity.Given() || l.BaseQuantity.Sign() > 0
	}),
	peppolLine("R130", "The unit of a price's base quantity (BT-150) is that of the line's quantity (BT-130)", func(_ *document, l *line) bool {
		return l.BaseUnit == "" || l.Unit == "" || l.BaseUnit == l.Unit
	}),
}

// peppolCodes returns the rules that an exemption reason requires a certain VAT category.
func peppolCodes() []Rule {
	var rules []Rule
	for _, tie := range [][3]string{
		{"P0104", "VATEX-EU-G", "G"},
		{"P0105", "VATEX-EU-O", "O"},
		{"P0106", "VATEX-EU-IC", "K"},
		{"P0107", "VATEX-EU-AE", "AE"},
		{"P0108", "VATEX-EU-D", "E"},
		{"P0109", "VATEX-EU-F", "E"},
		{"P0110", "VATEX-EU-I", "E"},
		{"P0111", "VATEX-EU-J", "E"},
	} {
		rules = append(rules, Rule{
			ID: peppolName + tie[0], Severity: Fatal, Text: "The reason " + tie[1] + " (BT-121) is for the category " + tie[2] + " (BT-118)",
			tax: func(_ *document, t *tax) bool {
				return !strings.EqualFold(t.ReasonCode, tie[1]) || t.Category == tie[2]
			},
		})
	}
	return rules
}

// peppolNumbers holds the rules on numbers with check digits.
var peppolNumbers = []Rule{
	peppolNumber("040", "0088", "A GLN (scheme 0088) has a right check digit (BT-29, BT-34, BT-49)", isGLN),
	peppolNumber("041", "0192", "A Norwegian organisation number (scheme 0192) has 9 digits and a right check digit (BT-29, BT-34, BT-49)", isNorwegian),
	peppolNumber("042", "0184", "A Danish organisation number (scheme 0184) is DK and 8 digits (BT-29, BT-34, BT-49)", danish.MatchString),
	peppolNumber("043", "0208", "A Belgian enterprise number (scheme 0208) has 10 digits, the last two of which check the others (BT-29, BT-34, BT-49)", isBelgian),
	peppolNumber("049", "0007", "A Swedish organisation number (scheme 0007) has 10 digits and a right check digit (BT-29, BT-34, BT-49)", isSwedish),
	peppolNumber("050", "0151", "An Australian business number (scheme 0151) has 11 digits, which check each other (BT-29, BT-34, BT-49)", isAustralian),
}

// peppolName is the prefix of the ids of Peppol's own rules.
const peppolName = "PEPPOL-EN16931-"

// peppolRule returns a fatal rule on the document.
func peppolRule(n, text string, holds func(*document) bool) Rule {
	return Rule{ID: peppolName + n, Severity: Fatal, Text: text, document: holds}
}

// peppolLine returns a fatal rule on lines.
func peppolLine(n, text string, holds func(*document, *line) bool) Rule {
	return Rule{ID: peppolName + n, Severity: Fatal, Text: text, line: holds}
}

// peppolAllowance returns a fatal rule on all allowances and charges of the document and its lines.
func peppolAllowance(n, text string, holds func(*allowance) bool) Rule {
	return peppolRule(n, text, func(d *document) bool {
		bad := func(a allowance) bool { return !holds(&a) }
		return !slices.ContainsFunc(d.Allowances, bad) &&
			!slices.ContainsFunc(d.Lines, func(l line) bool { return slices.ContainsFunc(l.Allowances, bad) })
	})
}

// peppolNumber returns a fatal rule on the identifiers of seller, buyer and payee that have this
// scheme.
func peppolNumber(n, scheme, text string, holds func(string) bool) Rule {
	bad := func(id invoice.Identifier) bool { return id.Scheme == scheme && !holds(strings.TrimSpace(id.ID)) }
	return Rule{ID: "PEPPOL-COMMON-R" + n, Severity: Fatal, Text: text, document: func(d *document) bool {
		for _, p := range []*invoice.Party{&d.Seller, &d.Buyer, d.Payee} {
			if p != nil && (bad(p.Endpoint) || bad(p.Legal) || slices.ContainsFunc(p.IDs, bad)) {
				return false
			}
		}
		return true
	}}
}

// countryOf returns the country of a party, by its VAT id or else its address; "" if unknown.
func countryOf(p *invoice.Party) string {
	if len(p.VATID) > 2 {
		return strings.ToUpper(p.VATID[:2])
	}
	if p.Address != nil {
		return p.Address.Country
	}
	return ""
}

// danish matches a Danish organisation number.
var danish = regexp.MustCompile(`^DK[0-9]{8}$`)

// weighted returns the sum of the digits times the weights, which repeat cyclically. The text must
// consist of digits.
func weighted(text string, weights ...int) (sum int) {
	for i := range len(text) {
		sum += int(text[i]-'0') * weights[i%len(weights)]
	}
	return sum
}

// isGLN checks a GS1 number, with weights 3 and 1 from the right.
func isGLN(s string) bool {
	if !digits(2, 18)(s) {
		return false
	}
	body := s[:len(s)-1]
	sum := weighted(reversed(body), 3, 1)
	return (10-sum%10)%10 == int(s[len(s)-1]-'0')
}

// reversed returns an ASCII text in reverse order.
func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// isNorwegian reports whether s is a Norwegian organisation number: 9 digits with a check digit
// modulo 11.
func isNorwegian(s string) bool {
	return digits(9, 9)(s) && strings.Trim(s, "0") != "" && (11-weighted(s[:8], 3, 2, 7, 6, 5, 4, 3, 2)%11)%11 == int(s[8]-'0')
}

// isBelgian reports whether s is a Belgian enterprise number: 10 digits of which the last two check
// the others modulo 97.
func isBelgian(s string) bool {
	if !digits(10, 10)(s) {
		return false
	}
	n := 0
	for _, c := range []byte(s[:8]) {
		n = n*10 + int(c-'0')
	}
	return 97-n%97 == int(s[8]-'0')*10+int(s[9]-'0')
}

// isSwedish reports whether s is a Swedish organisation number: 10 digits with a Luhn check digit.
func isSwedish(s string) bool {
	if !digits(10, 10)(s) {
		return false
	}
	sum := 0
	for i := range 9 {
		d := int(s[i]-'0') * (2 - i%2)
		sum += d/10 + d%10
	}
	return (10-sum%10)%10 == int(s[9]-'0')
}

// isAustralian reports whether s is an Australian business number: 11 digits checked modulo 89.
func isAustralian(s string) bool {
	return digits(11, 11)(s) && (weighted(s, 10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)-10)%89 == 0
}

// peppolStates lists the Peppol rules that are not in peppol, each with the reason.
var peppolStates = [][2]string{
	{"R008", "an element without content is read as one that is absent"},
	{"R043", "covered by SD-08"},
	{"R044", "a charge on a price is not read as a discount"},
	{"R051", "covered by SD-02"},
	{"R053, R054", "covered by BR-53, BR-CO-14 and BR-CO-15"},
	{"R080", "covered by UBL-SR-39"},
	{"R100, R101", "covered by UBL-SR-52 and UBL-SR-43"},
	{"CL001 to CL008", "covered by BR-CL"},
	{"F001", "a date that is none is not read (bad-value)"},
	{"COMMON-R044 to R047", "warnings on Italian numbers, not checked"},
	{"DE-R, DK-R, GR-R, IS-R, IT-R, NL-R, NO-R, SE-R", "rules of single countries, not checked"},
}
