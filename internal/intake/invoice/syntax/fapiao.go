package syntax

import (
	"slices"
	"strings"
	"sync"

	"example.org/smartdrive/internal/intake/invoice"
)

// XML of the Chinese fully digital invoice (数电票), as issued by the platform of the tax
// administration:
//
//	EInvoice
//	├── Header                 EIid, InherentLabel/{EInvoiceType, GeneralOrSpecialVAT}/{LabelCode, LabelName}
//	├── EInvoiceData           SellerInformation, BuyerInformation, BasicInformation, IssuItemInformation *
//	└── TaxSupervisionInfo     InvoiceNumber, IssueTime, TaxBureauName
//
// There is no published schema; the names are those that independent readers of such files agree
// on. Amounts are in yuan; rates are written 0.06 or 6%. A red invoice, which cancels another one,
// has negative amounts.

// fapiaoTree returns the tree of an EInvoice.
var fapiaoTree = sync.OnceValue(func() *node {
	return grow(nil, fapiaoHead, fapiaoTotals,
		withPrefix("EInvoiceData/SellerInformation", fapiaoParty("Seller", func(b *builder) *invoice.Party { return &b.doc.Seller })),
		withPrefix("EInvoiceData/BuyerInformation", fapiaoParty("Buyer", func(b *builder) *invoice.Party { return &b.doc.Buyer })),
		withPrefix("EInvoiceData/IssuItemInformation", fapiaoLine))
})

// fapiaoHead maps number, date, kind and remark.
var fapiaoHead = []row{
	{path: "TaxSupervisionInfo/InvoiceNumber", to: func(b *builder) any { return &b.doc.Number }},
	{path: "TaxSupervisionInfo/IssueTime", to: func(b *builder) any { return &b.doc.Date }},
	{path: "Header/InherentLabel/EInvoiceType/LabelCode", to: func(b *builder) any { return &b.flag }, end: addVariant},
	{path: "Header/InherentLabel/EInvoiceType/LabelName", to: func(b *builder) any { return &b.flag }, end: addVariant},
	{path: "Header/InherentLabel/GeneralOrSpecialVAT/LabelCode", to: func(b *builder) any { return &b.flag }, end: addVariant},
	{path: "Header/InherentLabel/GeneralOrSpecialVAT/LabelName", to: func(b *builder) any { return &b.flag }, end: addVariant},
	{path: "EInvoiceData/AdditionalInformation/Remark", begin: addNote, to: func(b *builder) any { return &b.note().Text }},
}

// addVariant appends a code or name to the invoice's kind: "02 普通发票 ...".
func addVariant(b *builder) {
	if b.flag != "" {
		b.doc.Variant = strings.TrimLeft(b.doc.Variant+" "+b.flag, " ")
		b.flag = ""
	}
}

// fapiaoTotals maps the totals.
var fapiaoTotals = []row{
	{path: "EInvoiceData/BasicInformation/TotalAmWithoutTax", to: func(b *builder) any { return &b.doc.Totals.Net }},
	{path: "EInvoiceData/BasicInformation/TotalTaxAm", to: func(b *builder) any { return &b.doc.Totals.Tax }},
	{path: "EInvoiceData/BasicInformation/TotalTax-includedAmount", to: func(b *builder) any { return &b.doc.Totals.Gross }},
	// RequestTime is not mapped: it is the time of the request; the day of issue is IssueTime
}

// fapiaoParty maps the elements of a party, whose names begin with its role.
func fapiaoParty(role string, of func(*builder) *invoice.Party) []row {
	return []row{
		{path: "", begin: func(b *builder) { b.party = of(b) }},
		{path: role + "IdNum", to: func(b *builder) any { return &b.party.TaxID }},
		{path: role + "Name", to: func(b *builder) any { return &b.party.Name }},
		{path: role + "Addr", begin: partyAddress, to: func(b *builder) any { return &b.address.Line1 }},
		{path: role + "TelNum", begin: partyContact, to: func(b *builder) any { return &b.party.Contact.Phone }},
		{path: role + "BankName", to: func(b *builder) any { return &b.flag }, end: addAccount},
		{path: role + "BankAccNum", to: func(b *builder) any { return &b.flag }, end: addAccount},
	}
}

// addAccount appends the bank or the account number to the party's account.
func addAccount(b *builder) {
	if b.flag != "" {
		b.party.Account = strings.TrimLeft(b.party.Account+" "+b.flag, " ")
		b.flag = ""
	}
}

// fapiaoLine maps the elements of a line.
var fapiaoLine = []row{
	{path: "", begin: addLine, end: endLine},
	{path: "ItemName", to: func(b *builder) any { return &b.line().Name }},
	{path: "SpecMod", to: func(b *builder) any { return &b.line().Description }},
	{path: "MeaUnits", to: func(b *builder) any { return &b.line().Unit }},
	{path: "Quantity", to: func(b *builder) any { return &b.line().Quantity }},
	{path: "UnPrice", to: func(b *builder) any { return &b.line().Price }},
	{path: "Amount", to: func(b *builder) any { return &b.line().Net }},
	{path: "TaxRate", to: func(b *builder) any { return &b.flag }, end: fapiaoRate},
	{path: "ComTaxAm", to: func(b *builder) any { return &b.line().Tax }},
	{path: "TaxClassificationCode", begin: addClass, to: func(b *builder) any { return &b.class().Code }},
}

// fapiaoRate stores a line's rate and category: 0.06, 6%, or the word for an exemption. An
// unreadable rate becomes the category, which fails validation.
func fapiaoRate(b *builder) {
	text, line := b.flag, b.line()
	b.flag = ""
	switch text {
	case "":
		return
	case "免税":
		line.Category = "E"
		return
	case "不征税", "***", "*":
		line.Category = "O"
		return
	}
	number, isPercent := strings.CutSuffix(text, "%")
	rate, err := invoice.ParseDecimal(number)
	if err != nil {
		line.Category = text
		return
	}
	if !isPercent {
		rate = rate.Mul(invoice.NewDecimal(100, 0))
	}
	line.Rate, line.Category = rate, "S"
	if rate.Sign() == 0 {
		line.Category = "Z"
	}
}

// finishFapiao sets the values that every Chinese invoice implies: profile, currency and type. It
// computes the taxes from the lines.
func finishFapiao(b *builder) {
	d := b.doc
	d.Profile, d.Currency, d.Type = invoice.ProfileFapiao, "CNY", "380"
	d.Totals.Payable = d.Totals.Gross
	for i := range d.Lines {
		line := &d.Lines[i]
		at := slices.IndexFunc(d.Taxes, func(t invoice.Tax) bool { return t.Category == line.Category && t.Rate.Equal(line.Rate) })
		if at < 0 {
			at = len(d.Taxes)
			d.Taxes = append(d.Taxes, invoice.Tax{Category: line.Category, Rate: line.Rate})
		}
		d.Taxes[at].Base = d.Taxes[at].Base.Add(line.Net)
		d.Taxes[at].Amount = d.Taxes[at].Amount.Add(line.Tax)
	}
}
