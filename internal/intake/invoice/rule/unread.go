package rule

import (
	"cmp"
	_ "embed"
	"regexp"
	"strings"
	"sync"
)

// Unread returns the reason why a file could not be read, in the language: the text of the kind,
// followed by the decoder's text in parentheses. For English and for an unknown kind it returns the
// decoder's text alone. A prefix "KIND: " of text is dropped. A decoder's text without a
// translation, such as one of an older release, stays in English.
func (l Language) Unread(kind, text string) string {
	text = strings.TrimPrefix(text, kind+": ") // the finding already names the kind as its rule
	said := unread[kind][l]
	if said == "" {
		return text
	}
	return said + " (" + l.reader(text) + ")"
}

// unread maps the kinds of unreadable files (syntax.Kind) to their texts per language.
var unread = map[string][3]string{
	"malformed":   {German: "Die Datei ist abgeschnitten oder nicht so gebaut, wie ihr Format es verlangt", Chinese: "文件被截断或结构不符合其格式"},
	"refused":     {German: "Die Datei enthält, was keine Rechnung braucht und Angreifer nutzen", Chinese: "文件含有发票不需要且常被攻击者利用的内容"},
	"limit":       {German: "Die Datei ist größer oder tiefer, als angenommen wird", Chinese: "文件超出允许的大小或层级"},
	"bad-value":   {German: "Ein Datum oder eine Zahl ist ungültig", Chinese: "日期或数字无效"},
	"unsupported": {German: "Das Format wird nicht unterstützt", Chinese: "不支持的格式"},
	"booking-aid": {German: "Ein Profil von Factur-X ohne Positionen: eine Buchungshilfe, keine Rechnung", Chinese: "无明细行的 Factur-X 子集：仅为记账辅助，不是发票"},
}

// unreadTable holds the translations of decoder texts. Each line has the English, German and
// Chinese text, separated by tabs. {1} and {2} are placeholders for values.
//
//go:embed unread.tsv
var unreadTable string

// reason is a decoder text with its translations.
type reason struct {
	english         *regexp.Regexp
	german, chinese string
}

// reasons returns the parsed unreadTable.
var reasons = sync.OnceValue(func() (all []reason) {
	value := strings.NewReplacer(`\{1\}`, `("(?:[^"\\]|\\.)*"|'.{1,4}'|[^"]+?)`, `\{2\}`, `(.+)`)
	for line := range strings.Lines(unreadTable) {
		english, rest, _ := strings.Cut(strings.TrimSpace(line), "\t")
		german, chinese, _ := strings.Cut(rest, "\t")
		all = append(all, reason{regexp.MustCompile(`(?s)^` + value.Replace(regexp.QuoteMeta(english)) + `$`), german, chinese})
	}
	return all
})

// about matches the subject in front of a decoder text: the path of an element, the name of a
// member, or the value.
var about = regexp.MustCompile(`(?s)^([A-Za-z][\w:/@.-]*:|("(?:[^"\\]|\\.)*") is) (.+)$`)

// reader translates the English text of a decoder's error. A text that is not in the table is
// returned unchanged or in part.
func (l Language) reader(text string) string {
	for _, r := range reasons() {
		parts := r.english.FindStringSubmatch(text)
		if parts == nil {
			continue
		}
		said := r.german
		if l == Chinese {
			said = r.chinese
		}
		for i, part := range parts[1:] {
			if i == 1 {
				part = l.reader(part) // {2} is itself a decoder text
			}
			said = strings.Replace(said, [...]string{"{1}", "{2}"}[i], part, 1)
		}
		return said
	}
	if parts := about.FindStringSubmatch(text); parts != nil {
		return strings.TrimSuffix(cmp.Or(parts[2], parts[1]), ":") + ": " + l.reader(parts[3])
	}
	return text
}
