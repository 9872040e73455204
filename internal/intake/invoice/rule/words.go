package rule

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"
)

// Language is one that findings are said in.
type Language uint8

// The languages.
const (
	English Language = iota
	German
	Chinese
)

// wordsTable has a line for each text of a rule: in English, German and Chinese, separated by tabs.
//
//go:embed words.tsv
var wordsTable string

var words = sync.OnceValue(func() map[string][2]string {
	all := map[string][2]string{}
	for line := range strings.Lines(wordsTable) {
		if english, rest, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			german, chinese, _ := strings.Cut(rest, "\t")
			all[english] = [2]string{german, chinese}
		}
	}
	return all
})

// In says the text of a finding, which is in English, in another language. A text that is not
// known, such as one of an older release, stays as it is.
func (l Language) In(text string) string {
	if l == English {
		return text
	}
	if said, ok := words()[text]; ok {
		return said[l-1]
	}
	if parts := counted.FindStringSubmatch(text); parts != nil {
		return l.In(parts[1]) + strings.Replace(andMore[l], "{n}", parts[2], 1)
	}
	if parts := placed.FindStringSubmatch(text); parts != nil {
		if said, ok := words()[parts[1]]; ok {
			return said[l-1] + " (" + l.place(parts[2]) + ")"
		}
	}
	if parts := moreFindings.FindStringSubmatch(text); parts != nil {
		return strings.Replace(furtherFindings[l], "{n}", parts[1], 1)
	}
	return text
}

// What finding puts behind the text of a rule, and encodeFindings of package ingest at the end.
var (
	counted      = regexp.MustCompile(`^(.*), and (\d+) more$`)
	placed       = regexp.MustCompile(`(?s)^(.*?) \(((?:line|VAT|allowance or charge)\b.*)\)$`)
	moreFindings = regexp.MustCompile(`^and (\d+) more findings$`)

	andMore         = [...]string{German: ", und {n} weitere", Chinese: "，另有 {n} 处"}
	furtherFindings = [...]string{German: "und {n} weitere Befunde", Chinese: "另有 {n} 条问题"}
)

// place says which line, breakdown or allowance is meant.
func (l Language) place(where string) string {
	for _, kind := range [][3]string{
		{"line ", "Position ", "行 "}, {"allowance or charge ", "Nachlass oder Zuschlag ", "折让或附加费 "}, {"VAT ", "USt ", "增值税 "},
	} {
		if rest, ok := strings.CutPrefix(where, kind[0]); ok {
			return kind[l] + rest
		}
	}
	return where
}
