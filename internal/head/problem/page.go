package problem

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
)

// style is the style sheet of the pages. The policy allows only this text.
const style = `body{max-width:40rem;margin:3rem auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;color:#222}
code{background:#eee;padding:.1em .3em;border-radius:3px}a{color:#06c}dt{font-weight:600}dd{margin:0 0 .8em}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}code{background:#333}a{color:#6af}}`

// pageText is the template of a page about one problem, or about all if there is no Problem.
//
//go:embed page.html
var pageText string

var (
	// page is the template of the problem pages.
	page = template.Must(template.New("page").Parse(pageText))
	// pagePolicy is the Content-Security-Policy of the problem pages; only their own style is
	// allowed.
	pagePolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" + styleHash() + "'"
)

// styleHash returns the base64 SHA-256 of the page style for pagePolicy.
func styleHash() string {
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// view is the data of page.html.
type view struct {
	Lang, Other string       // BCP 47 tags
	OtherName   string       // name of the other language in that language
	Style       template.CSS // a constant, so not escaped
	Back        string       // label of the link to the list
	Heading     string
	Problem     *entry // nil on the list
	DoHeading   string
	Problems    []entry
}

// entry is a problem on a page, in one language.
type entry struct {
	Code, Title, Meaning, Advice string
	Status                       int
}

// ServePage serves GET /problems/{code}, which explains one kind of error, and GET /problems, the
// list. The language is the query parameter lang, else that of Accept-Language. An unknown code is
// answered with drive.NotFound.
func ServePage(w http.ResponseWriter, r *http.Request) {
	l := Negotiate(r.Header.Get("Accept-Language"))
	if chosen := r.URL.Query().Get("lang"); chosen != "" {
		l = Negotiate(chosen)
	}
	v := newView(l)
	if code := r.PathValue("code"); code != "" {
		p, ok := findEntry(code, l)
		if !ok {
			Write(w, r, drive.Fail(drive.NotFound))
			return
		}
		v.Problem, v.Heading = &p, p.Title
	} else {
		for i := range rows {
			v.Problems = append(v.Problems, rows[i].entry(l))
		}
	}
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		Write(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", l.Tag())
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	_, _ = w.Write(b.Bytes()) // fails only if the client is disconnected
}

// newView returns the texts of a problem page in a language, without entries.
func newView(l Lang) view {
	v := view{
		Lang: English.Tag(), Other: Chinese.Tag(), OtherName: "中文", Style: style,
		Heading: "Problems", Back: "All problems", DoHeading: "What to do",
	}
	if l == Chinese {
		v.Lang, v.Other, v.OtherName = Chinese.Tag(), English.Tag(), "English"
		v.Heading, v.Back, v.DoHeading = "问题列表", "全部问题", "如何处理"
	}
	return v
}

// findEntry returns the entry of a problem code; false for an unknown code.
func findEntry(code string, l Lang) (entry, bool) {
	for i := range rows {
		if rows[i].kind.String() == code {
			return rows[i].entry(l), true
		}
	}
	return entry{}, false
}

// entry returns the row's texts in a language for a page.
func (r *row) entry(l Lang) entry {
	return entry{
		Code: r.kind.String(), Status: r.status, Title: r.title.in(l),
		Meaning: r.says[len(r.says)-1].in(l), Advice: r.advice.in(l),
	}
}
