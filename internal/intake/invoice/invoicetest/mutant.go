package invoicetest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"smartdrive/internal/intake/invoice"
)

// Mutant is one change of a text of XML: With instead of the bytes from From to To. Name says what
// it does to which element, such as "drop /Invoice[1]/cbc:ID[1]".
type Mutant struct {
	Name     string
	From, To int
	With     string
}

// Of returns the changed text.
func (m Mutant) Of(text []byte) []byte {
	return slices.Concat(text[:m.From], []byte(m.With), text[m.To:])
}

// Mutants lists what a careless program may do to an invoice: drop an element or an attribute,
// write an element twice, change a code, an amount or a scheme. The order is that of the elements.
func Mutants(text []byte) []Mutant {
	var all []Mutant
	for _, e := range elements(text) {
		all = append(all,
			Mutant{"drop " + e.path, e.from, e.to, ""},
			Mutant{"repeat " + e.path, e.to, e.to, string(text[e.from:e.to])})
		if !e.leaf {
			continue
		}
		for _, a := range attributes(text, e) {
			all = append(all, Mutant{"drop " + e.path + "/@" + a.name, a.from, a.to, ""})
			for _, other := range otherCodes(a.name, a.value) {
				all = append(all, Mutant{"code " + e.path + "/@" + a.name + " " + other, a.from, a.to, " " + a.name + `="` + other + `"`})
			}
		}
		value := string(bytes.TrimSpace(text[e.inner:e.innerTo]))
		for _, other := range otherCodes(codeName(e.path), value) {
			all = append(all, Mutant{"code " + e.path + " " + other, e.inner, e.innerTo, other})
		}
		for _, other := range otherAmounts(e.path, value) {
			all = append(all, Mutant{"amount " + e.path + " " + other, e.inner, e.innerTo, other})
		}
	}
	return all
}

// element is where an element stands: its tags from and to, what is between them inner.
type element struct {
	path                     string
	from, to, inner, innerTo int
	leaf                     bool
}

// elements lists all elements but the root.
func elements(text []byte) []element {
	var all []element
	var open []int
	counts := []map[string]int{{}}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		from := int(d.InputOffset())
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			return all[1:]
		}
		if err != nil {
			panic(err) // it is a valid invoice
		}
		to := int(d.InputOffset())
		switch t := token.(type) {
		case xml.StartElement:
			name := t.Name.Local
			if t.Name.Space != "" {
				name = t.Name.Space + ":" + name
			}
			parent := ""
			if len(open) > 0 {
				all[open[len(open)-1]].leaf = false
				parent = all[open[len(open)-1]].path
			}
			here := counts[len(counts)-1]
			here[name]++
			all = append(all, element{path: fmt.Sprintf("%s/%s[%d]", parent, name, here[name]), from: from, inner: to, leaf: true})
			open, counts = append(open, len(all)-1), append(counts, map[string]int{})
		case xml.EndElement:
			e := &all[open[len(open)-1]]
			e.innerTo, e.to = from, to
			open, counts = open[:len(open)-1], counts[:len(counts)-1]
		}
	}
}

type attribute struct {
	name, value string
	from, to    int
}

var attributeText = regexp.MustCompile(`\s+([\w:]+)\s*=\s*(?:"([^"]*)"|'([^']*)')`)

func attributes(text []byte, e element) []attribute {
	var all []attribute
	for _, at := range attributeText.FindAllSubmatchIndex(text[e.from:e.inner], -1) {
		name := string(text[e.from+at[2] : e.from+at[3]])
		value := at[4:6]
		if value[0] < 0 {
			value = at[6:8]
		}
		if !strings.HasPrefix(name, "xmlns") {
			all = append(all, attribute{name, string(text[e.from+value[0] : e.from+value[1]]), e.from + at[0], e.from + at[1]})
		}
	}
	return all
}

// codeName is the name of the list that the code of an element comes from, or nothing.
func codeName(path string) string {
	last := func(n int) string {
		steps := strings.Split(path, "/")
		name := steps[max(0, len(steps)-n)]
		name = name[:strings.IndexByte(name+"[", '[')]
		return name[strings.IndexByte(name, ':')+1:]
	}
	switch name := last(1); {
	case name == "ID" && strings.HasSuffix(last(2), "TaxCategory"), name == "CategoryCode":
		return "category"
	case name == "ID" && last(2) == "TaxScheme", name == "TypeCode" && strings.HasSuffix(last(2), "TradeTax"):
		return "taxScheme"
	case name == "CountryID", name == "IdentificationCode":
		return "country"
	case strings.HasSuffix(name, "CurrencyCode"):
		return "currencyID"
	case name == "ReferenceTypeCode":
		return "schemeID"
	case strings.HasSuffix(name, "Code") && name != "PostcodeCode":
		return name
	}
	return ""
}

var codes = map[string]string{
	"category": "S Z E AE K G O L M B QQ", "taxScheme": "OTH vat", "country": "FR QX Germany", "currencyID": "USD QQQ euro",
	"schemeID": "0088 0204 EM AAA VA FC QQQ", "listID": "STI QQQ", "unitCode": "C62 HUR PCS MO", "mimeCode": "text/csv text/html",
	"format": "102 203", "InvoiceTypeCode": "380 384 381 999", "CreditNoteTypeCode": "381 380 999", "TypeCode": "380 381 58 42 130 916 99",
	"PaymentMeansCode": "42 58 99", "AllowanceChargeReasonCode": "95 FC 100 QQQ", "ReasonCode": "95 FC 100 QQQ", "DescriptionCode": "35 29 9",
	"DueDateTypeCode": "72 35 9", "TaxExemptionReasonCode": "VATEX-EU-O VATEX-QQ", "ExemptionReasonCode": "VATEX-EU-O VATEX-QQ", "DocumentTypeCode": "130 50 916",
	"SubjectCode": "AAI QQQ", "ItemClassificationCode": "1", "ClassCode": "1",
}

func otherCodes(list, value string) []string {
	return slices.DeleteFunc(strings.Fields(codes[list]), func(code string) bool { return code == value })
}

var amountName = regexp.MustCompile(`(Amount|Quantity|Percent|Numeric|RateApplicablePercent)\[\d+\]$`)

// otherAmounts are numbers that are not this one: a little more, more, more decimals, less than 0.
func otherAmounts(path, value string) []string {
	if _, err := strconv.ParseFloat(value, 64); err != nil || !amountName.MatchString(path) {
		return nil
	}
	d, err := invoice.ParseDecimal([]byte(value))
	if err != nil {
		return nil
	}
	return []string{
		d.Add(invoice.NewDecimal(1, 2)).String(), d.Add(invoice.NewDecimal(7, 0)).String(), d.Add(invoice.NewDecimal(1, 3)).String(),
		d.Sub(invoice.NewDecimal(1_000_000, 0)).String(),
	}
}
