package rule

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"
)

// Language is a language of findings.
type Language uint8

// Languages.
const (
	English Language = iota
	German
	Chinese
)

// wordsTable holds the translations of rule texts. Each line has the English, German and Chinese
// text, separated by tabs.
//
//go:embed words.tsv
var wordsTable string

// words returns the German and Chinese text of each English one.
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

// In translates the English text of a finding. A text without a translation, such as one of an
// older release, stays in English.
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

// Suffixes that finding appends to a rule's text, and the text that encodeFindings of package
// ingest appends at the end.
var (
	counted      = regexp.MustCompile(`^(.*), and (\d+) more$`)
	placed       = regexp.MustCompile(`(?s)^(.*?) \(((?:line|VAT|allowance or charge)\b.*)\)$`)
	moreFindings = regexp.MustCompile(`^and (\d+) more findings$`)

	andMore         = [...]string{German: ", und {n} weitere", Chinese: "，另有 {n} 处"}
	furtherFindings = [...]string{German: "und {n} weitere Befunde", Chinese: "另有 {n} 条问题"}
)

// place translates the name of a line, breakdown or allowance.
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
