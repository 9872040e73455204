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

	"example.org/smartdrive/internal/intake/invoice"
)

// Mutant is a change of an XML text: it replaces the bytes from From to To by With. Name describes
// the change and the element, such as "drop /Invoice[1]/cbc:ID[1]".
type Mutant struct {
	Name     string
	From, To int
	With     string
}

// Of returns the changed text.
func (m Mutant) Of(text []byte) []byte {
	return slices.Concat(text[:m.From], []byte(m.With), text[m.To:])
}

// Mutants returns typical mistakes of programs that write invoices: a missing element or attribute,
// a repeated element, a wrong code, amount or scheme. They are in the order of the elements.
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

// element is the position of an element: from and to include its tags, inner and innerTo do not.
type element struct {
	path                     string
	from, to, inner, innerTo int
	leaf                     bool
}

// elements returns all elements except the root. It panics if the text is not well-formed.
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
			panic(err) // the text must be a valid invoice
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

// attribute is the position of an attribute.
type attribute struct {
	name, value string
	from, to    int
}

// attributeText matches an XML attribute; groups are its name and its value in either quotes.
var attributeText = regexp.MustCompile(`\s+([\w:]+)\s*=\s*(?:"([^"]*)"|'([^']*)')`)

// attributes returns the attributes of an element without namespace declarations.
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

// codeName returns the name of the list in codes that an element's code belongs to; "" if none.
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

// codes holds replacement values for codes, by name of the list, attribute or element.
var codes = map[string]string{
	"category": "S Z E AE K G O L M B QQ", "taxScheme": "OTH vat", "country": "FR QX Germany", "currencyID": "USD QQQ euro",
	"schemeID": "0088 0204 EM AAA VA FC QQQ", "listID": "STI QQQ", "unitCode": "C62 HUR PCS MO", "mimeCode": "text/csv text/html",
	"format": "102 203", "InvoiceTypeCode": "380 384 381 999", "CreditNoteTypeCode": "381 380 999", "TypeCode": "380 381 58 42 130 916 99",
	"PaymentMeansCode": "42 58 99", "AllowanceChargeReasonCode": "95 FC 100 QQQ", "ReasonCode": "95 FC 100 QQQ", "DescriptionCode": "35 29 9",
	"DueDateTypeCode": "72 35 9", "TaxExemptionReasonCode": "VATEX-EU-O VATEX-QQ", "ExemptionReasonCode": "VATEX-EU-O VATEX-QQ", "DocumentTypeCode": "130 50 916",
	"SubjectCode": "AAI QQQ", "ItemClassificationCode": "1", "ClassCode": "1",
}

// otherCodes returns the replacement values of a list that differ from value.
func otherCodes(list, value string) []string {
	return slices.DeleteFunc(strings.Fields(codes[list]), func(code string) bool { return code == value })
}

// amountName matches paths of elements that contain a number.
var amountName = regexp.MustCompile(`(Amount|Quantity|Percent|Numeric|RateApplicablePercent)\[\d+\]$`)

// otherAmounts returns numbers that differ from value: slightly larger, larger, with more decimals,
// negative. It returns nil if the element is not an amount.
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
