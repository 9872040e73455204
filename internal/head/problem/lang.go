package problem

import (
	"strings"

	"golang.org/x/text/language"
)

// Lang is a language that every text exists in.
type Lang uint8

// The languages.
const (
	English Lang = iota
	Chinese
)

// Tag returns the language's BCP 47 tag, for Content-Language and the lang attribute.
func (l Lang) Tag() string {
	if l == Chinese {
		return "zh-CN"
	}
	return "en"
}

// text is one sentence in every language.
type text struct{ en, zh string }

func (t text) in(l Lang) string {
	if l == Chinese {
		return t.zh
	}
	return t.en
}

// maxAcceptLanguage is how many bytes of an Accept-Language header are looked at: browsers send
// under 100.
const maxAcceptLanguage = 256

var matcher = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

// Negotiate chooses the language for an Accept-Language header (RFC 9110 §12.5.4). Every kind of
// Chinese gets Chinese; what cannot be read, or names neither language, gets English.
func Negotiate(header string) Lang {
	if len(header) > maxAcceptLanguage {
		end := strings.LastIndexByte(header[:maxAcceptLanguage], ',')
		header = header[:max(end, 0)]
	}
	wanted, weights, err := language.ParseAcceptLanguage(header) // the heaviest first
	if err != nil || len(wanted) == 0 || !(weights[0] <= 1) {
		return English
	}
	for _, tag := range wanted {
		if base, _ := tag.Base(); base.String() == "zh" {
			// Before the matcher, for which traditional Chinese is too far from simplified.
			return Chinese
		}
		if _, i, confidence := matcher.Match(tag); confidence >= language.Low {
			return Lang(i)
		}
	}
	return English
}
