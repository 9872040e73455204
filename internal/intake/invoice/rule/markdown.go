package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Markdown returns the content of the page docs/invoice-rules.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(pageHead)
	european, rest := europeanRules(), chineseRules()
	writeIDs(&b, "EN 16931", european[:len(european)-len(own)])
	writeTexts(&b, "Chinese fully digital invoices", rest[:len(rest)-len(own)])
	writeTexts(&b, "All invoices", own)
	writeIDs(&b, "XRechnung 3, for sources that ask for it", xrechnung)
	writeIDs(&b, "Peppol BIS Billing 3.0, for sources that ask for it", peppol)
	b.WriteString(peppolHead)
	for _, s := range peppolStates {
		fmt.Fprintf(&b, "| %s | %s |\n", s[0], s[1])
	}
	fmt.Fprintf(&b, releaseHead, Release)
	for _, s := range exceptions {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.ID, s.State, s.Why)
	}
	b.WriteString("\n## Stricter than the release\n\n| rule | why |\n|---|---|\n")
	for _, s := range stricter {
		fmt.Fprintf(&b, "| %s | %s |\n", s[0], s[1])
	}
	return b.String()
}

// writeTexts writes a section that lists each rule with its text.
func writeTexts(b *strings.Builder, title string, rules []Rule) {
	fmt.Fprintf(b, "\n## %s\n\n%d rules.\n\n", title, len(rules))
	for i := range rules {
		mark := ""
		if rules[i].Severity != Fatal {
			mark = " (" + rules[i].Severity.String() + ")"
		}
		fmt.Fprintf(b, "- %s%s: %s\n", rules[i].ID, mark, rules[i].Text)
	}
}

// writeIDs writes a section that lists the IDs of published rules, a line per prefix and severity.
func writeIDs(b *strings.Builder, title string, rules []Rule) {
	fmt.Fprintf(b, "\n## %s\n\n%d rules.\n\n", title, len(rules))
	var groups []string
	ids := map[string][]string{}
	for i := range rules {
		id := rules[i].ID
		group := id[:strings.LastIndexAny(strings.TrimRight(id, "-ab"), "-")+1] + "*, " + rules[i].Severity.String()
		if ids[group] == nil {
			groups = append(groups, group)
		}
		if !slices.Contains(ids[group], id) {
			ids[group] = append(ids[group], id)
		}
	}
	for _, group := range groups {
		line := "- " + group + ":"
		items := runs(ids[group], strings.Index(group, "*"))
		for i, item := range items {
			if i < len(items)-1 {
				item += ","
			}
			if len(line)+1+len(item) > 120 {
				fmt.Fprintln(b, line)
				line = " "
			}
			line += " " + item
		}
		fmt.Fprintln(b, line)
	}
}

// runs returns what follows the prefix in each ID, sorted. Three or more consecutive numbers are
// one item, such as "01 to 33".
func runs(ids []string, prefix int) (items []string) {
	numbers := make([]string, len(ids))
	for i, id := range ids {
		numbers[i] = id[prefix:]
	}
	slices.SortFunc(numbers, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for from := 0; from < len(numbers); {
		to := from + 1
		for to < len(numbers) && consecutive(numbers[to-1], numbers[to]) {
			to++
		}
		if to-from > 2 {
			items = append(items, numbers[from]+" to "+numbers[to-1])
		} else {
			items = append(items, numbers[from:to]...)
		}
		from = to
	}
	return items
}

// consecutive reports whether b is the number after a, behind the same letters.
func consecutive(a, b string) bool {
	const letters = "PR"
	digitsA, digitsB := strings.TrimLeft(a, letters), strings.TrimLeft(b, letters)
	x, errA := strconv.Atoi(digitsA)
	y, errB := strconv.Atoi(digitsB)
	return errA == nil && errB == nil && y == x+1 && strings.TrimSuffix(a, digitsA) == strings.TrimSuffix(b, digitsB)
}

// peppolHead introduces the table of Peppol rules.
const peppolHead = `
These are the rules that OpenPEPPOL publishes for all countries. Rules whose names begin with PEPPOL- and that are not listed above:

| rule | state |
|---|---|
`

// releaseHead introduces the table of the release's rules; its argument is the release.
const releaseHead = `
## Each rule of the release

What is done about the rules of release %s that the artefacts call fatal. A rule that is not named here is listed above,
and covered: a document that breaks it is refused. A test compares this table with the list of all of them, and 10,000
changed invoices with the verdicts of the artefacts.

| rule | state | why |
|---|---|---|
`

// pageHead is the start of docs/invoice-rules.md.
const pageHead = `# Rules for invoices

Written by ` + "`make docs`" + ` from the tables of internal/intake/invoice/rule.

> 中文摘要：本页列出接收发票时检查的全部规则；官方规则只列编号，条文见其发布者。“fatal” 表示文档无效，
> 将被拒收并附上规则编号；“warning” 仅提示，文档仍被接收。“不支持”（未知的格式、编码、profile）单独报告，绝不等同于“无效”。规则依据 CEN/TC 434 校验工件的 ` + Release + ` 版；页末的表说明该版本每条规则如何处理。
> 标识符方案（ISO 6523、EAS）中未知但格式正确的代码只给出警告，因为代码表会更新。金额均为精确十进制数。

The rules follow release **` + Release + `** of CEN/TC 434's validation artefacts for EN 16931; code lists are those of that release.

A document is **rejected as invalid** when it breaks a fatal rule; the findings name it. A warning is stored
with the document and changes nothing. What SmartDrive does not know is **unsupported**, which says nothing about the
document.

For rules of EN 16931, XRechnung and Peppol BIS this page lists the names; the publishers have the texts:
[EN 16931](https://github.com/ConnectingEurope/eInvoicing-EN16931), [XRechnung](https://xeinkauf.de/xrechnung/),
[Peppol BIS Billing](https://docs.peppol.eu/poacc/billing/3.0/). Each finding has the text of its rule, too. A name under
both severities is a fatal rule for certain defects and a warning for unknown codes.

| format | read | unsupported |
|---|---|---|
| UBL 2.1 Invoice and CreditNote | EN 16931-3-2, and lines within lines | other documents of UBL |
| UN/CEFACT CII | EN 16931-3-3 (D16B) | |
| the XML of the Chinese fully digital invoice | see internal/intake/invoice/syntax/fapiao.go | |
| NDJSON of the own model | one document in a line ([invoice-model.md](invoice-model.md)) | |
| PDF with an embedded invoice; zip and OFD with invoices in them | the XML, as above | encrypted ones; envelopes within envelopes |
| anything else | | always |

Profiles (BT-24): ` + "`urn:cen.eu:en16931:2017`" + `, each CIUS of it (` + "`#compliant#`" + `), and the XRechnung extension. Other
extensions (` + "`#conformant#`" + `) and ZUGFeRD 1 (UN/CEFACT D13B) are unsupported. A CII of D16B that names ZUGFeRD 1's profile
COMFORT is judged by the core. Profiles of Factur-X below EN 16931 (MINIMUM, BASIC WL) are rejected as ` + "`booking-aid`" + `.
Encodings: UTF-8, UTF-16, GB18030 with GBK and GB 2312, ISO 8859-1 and -15, Windows-1252. A member of XML holds one
document.

Tests break each rule by itself in a valid invoice and expect that rule to be reported. The 86 instances of the XRechnung
test suite break no fatal one.

These rules are kinder than the artefacts in two points: an unknown identifier scheme in the form of its list is a
warning, because those lists grow; and of what an invoice repeats in another way (a second telephone number, the due date
of a second discount tier) the first counts, and a warning names the second (SD-05). All descriptions, notes and terms of
payment are kept. The end of this page lists where they are stricter.

A document is recognized by its seller, number and date, and by a hash of what it says in any format, so an invoice in UBL
and the same in CII are duplicates. Embedded files count by their SHA-256.
`
