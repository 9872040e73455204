package invoice

// Document is one invoice or credit note. The comments name the terms of EN 16931-1: BT is a
// business term, BG a group.
type Document struct {
	Profile         string `json:"profile,omitzero"`          // BT-24: the rules that it claims to follow
	Process         string `json:"process,omitzero"`          // BT-23
	Number          string `json:"number,omitzero"`           // BT-1
	Date            Date   `json:"date,omitzero"`             // BT-2: the day of issue
	Type            string `json:"type,omitzero"`             // BT-3: UNTDID 1001; 380 an invoice, 381 a credit note
	Variant         string `json:"variant,omitzero"`          // the national kind, code and name; China: "01 ..."
	Currency        string `json:"currency,omitzero"`         // BT-5: ISO 4217
	TaxCurrency     string `json:"tax_currency,omitzero"`     // BT-6
	TaxPoint        Date   `json:"tax_point,omitzero"`        // BT-7
	TaxPointCode    string `json:"tax_point_code,omitzero"`   // BT-8: UNTDID 2005 (3, 35, 432), in CII's 5, 29, 72 converted
	Due             Date   `json:"due,omitzero"`              // BT-9
	BuyerReference  string `json:"buyer_reference,omitzero"`  // BT-10
	Project         string `json:"project,omitzero"`          // BT-11
	Contract        string `json:"contract,omitzero"`         // BT-12
	PurchaseOrder   string `json:"purchase_order,omitzero"`   // BT-13
	SalesOrder      string `json:"sales_order,omitzero"`      // BT-14
	Receipt         string `json:"receipt,omitzero"`          // BT-15
	Despatch        string `json:"despatch,omitzero"`         // BT-16
	Tender          string `json:"tender,omitzero"`           // BT-17
	BuyerAccounting string `json:"buyer_accounting,omitzero"` // BT-19
	PaymentTerms    string `json:"payment_terms,omitzero"`    // BT-20

	Object            Identifier  `json:"object,omitzero"`             // BT-18
	Notes             []Note      `json:"notes,omitempty"`             // BG-1
	Preceding         []Reference `json:"preceding,omitempty"`         // BG-3
	Seller            Party       `json:"seller,omitzero"`             // BG-4
	Buyer             Party       `json:"buyer,omitzero"`              // BG-7
	Payee             *Party      `json:"payee,omitzero"`              // BG-10
	TaxRepresentative *Party      `json:"tax_representative,omitzero"` // BG-11
	Delivery          *Delivery   `json:"delivery,omitzero"`           // BG-13
	Period            *Period     `json:"period,omitzero"`             // BG-14

	Payments         []Payment    `json:"payments,omitempty"`         // BG-16
	PaymentReference string       `json:"payment_reference,omitzero"` // BT-83
	Mandate          string       `json:"mandate,omitzero"`           // BT-89
	Creditor         string       `json:"creditor,omitzero"`          // BT-90
	Allowances       []Allowance  `json:"allowances,omitempty"`       // BG-20, and BG-21 where Charge is set
	Totals           Totals       `json:"totals,omitzero"`            // BG-22
	Taxes            []Tax        `json:"taxes,omitempty"`            // BG-23
	Attachments      []Attachment `json:"attachments,omitempty"`      // BG-24
	Lines            []Line       `json:"lines,omitempty"`            // BG-25
	ThirdParty       []Collected  `json:"third_party,omitempty"`      // XRechnung extension, BG-DEX-09
	OtherCurrencies  []string     `json:"other_currencies,omitempty"` // of amounts that are not in Currency, apart from BT-111
	Repeated         []string     `json:"repeated,omitempty"`         // what was said twice, differently, where one value belongs; the first counts

	Written Written `json:"-"`
}

// Identifier is an id and, where given, the scheme that issued it (ISO 6523 and others).
type Identifier struct {
	ID     string `json:"id,omitzero"`
	Scheme string `json:"scheme,omitzero"`
}

// Note is a text on the document as a whole; Subject is UNTDID 4451.
type Note struct {
	Subject string `json:"subject,omitzero"` // BT-21
	Text    string `json:"text,omitzero"`    // BT-22
}

// Reference is a document that came before.
type Reference struct {
	Number string `json:"number,omitzero"` // BT-25
	Date   Date   `json:"date,omitzero"`   // BT-26
}

// Delivery is where and when something was handed over.
type Delivery struct {
	Name     string     `json:"name,omitzero"`     // BT-70
	Location Identifier `json:"location,omitzero"` // BT-71
	Date     Date       `json:"date,omitzero"`     // BT-72
	Address  *Address   `json:"address,omitzero"`  // BG-15
}

// Period is a range of days, both included; either may be absent.
type Period struct {
	Start Date `json:"start,omitzero"` // BT-73, BT-134
	End   Date `json:"end,omitzero"`   // BT-74, BT-135
}

// Payment is one way to pay.
type Payment struct {
	Code         string `json:"code,omitzero"`          // BT-81: UNTDID 4461
	Text         string `json:"text,omitzero"`          // BT-82
	Transfer     bool   `json:"transfer,omitzero"`      // BG-17 is there, whatever it says
	Account      string `json:"account,omitzero"`       // BT-84
	AccountName  string `json:"account_name,omitzero"`  // BT-85
	Bank         string `json:"bank,omitzero"`          // BT-86
	Card         string `json:"card,omitzero"`          // BT-87: the last digits
	CardHolder   string `json:"card_holder,omitzero"`   // BT-88
	DebitAccount string `json:"debit_account,omitzero"` // BT-91
}

// Allowance is a reduction, or with Charge an addition, on a document or a line.
type Allowance struct {
	Charge   bool    `json:"charge,omitzero"`
	Amount   Decimal `json:"amount,omitzero"`   // BT-92, 99, 136, 141
	Base     Decimal `json:"base,omitzero"`     // BT-93, 100, 137, 142
	Percent  Decimal `json:"percent,omitzero"`  // BT-94, 101, 138, 143
	Category string  `json:"category,omitzero"` // BT-95, 102
	Rate     Decimal `json:"rate,omitzero"`     // BT-96, 103
	Reason   string  `json:"reason,omitzero"`   // BT-97, 104, 139, 144
	Code     string  `json:"code,omitzero"`     // BT-98, 105, 140, 145: UNTDID 5189, 7161
}

// Totals are the sums of a document.
type Totals struct {
	Lines         Decimal `json:"lines,omitzero"`           // BT-106
	Allowances    Decimal `json:"allowances,omitzero"`      // BT-107
	Charges       Decimal `json:"charges,omitzero"`         // BT-108
	Net           Decimal `json:"net,omitzero"`             // BT-109: without VAT
	Tax           Decimal `json:"tax,omitzero"`             // BT-110
	TaxInCurrency Decimal `json:"tax_in_currency,omitzero"` // BT-111: in TaxCurrency
	Gross         Decimal `json:"gross,omitzero"`           // BT-112: with VAT
	Prepaid       Decimal `json:"prepaid,omitzero"`         // BT-113
	Rounding      Decimal `json:"rounding,omitzero"`        // BT-114
	Payable       Decimal `json:"payable,omitzero"`         // BT-115
}

// Tax is the VAT of one category and rate.
type Tax struct {
	Category   string  `json:"category,omitzero"`    // BT-118: UNTDID 5305
	Rate       Decimal `json:"rate,omitzero"`        // BT-119: percent
	Base       Decimal `json:"base,omitzero"`        // BT-116
	Amount     Decimal `json:"amount,omitzero"`      // BT-117
	Reason     string  `json:"reason,omitzero"`      // BT-120
	ReasonCode string  `json:"reason_code,omitzero"` // BT-121: VATEX
}

// Attachment is a supporting document: embedded, linked, or only named.
type Attachment struct {
	ID     string `json:"id,omitzero"`     // BT-122
	Text   string `json:"text,omitzero"`   // BT-123
	URL    string `json:"url,omitzero"`    // BT-124
	Name   string `json:"name,omitzero"`   // BT-125: the name of the embedded file
	Type   string `json:"type,omitzero"`   // its media type
	Size   int64  `json:"size,omitzero"`   // its bytes
	SHA256 string `json:"sha256,omitzero"` // of them, in hex
}

// Collected is an amount that somebody else collects along with the invoice (XRechnung extension).
type Collected struct {
	Type   string  `json:"type,omitzero"`   // BT-DEX-001
	Amount Decimal `json:"amount,omitzero"` // BT-DEX-002
	Text   string  `json:"text,omitzero"`   // BT-DEX-003
}

// Values of Document.Profile. A CIUS is ProfileCore, "#compliant#" and its own name.
const (
	ProfileCore   = "urn:cen.eu:en16931:2017"
	ProfileFapiao = "cn:fully-digital-invoice"
)
