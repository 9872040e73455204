package problem

import (
	"strings"

	"golang.org/x/text/language"
)

// Lang is a language that all problem texts are written in.
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

// text is a sentence in every language.
type text struct{ en, zh string }

// in returns the text in the language; English unless l is Chinese.
func (t text) in(l Lang) string {
	if l == Chinese {
		return t.zh
	}
	return t.en
}

// maxAcceptLanguage bounds the parsed bytes of Accept-Language. Browsers send under 100.
const maxAcceptLanguage = 256

// matcher selects the language for an Accept-Language value.
var matcher = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})

// Negotiate returns the language for the value of Accept-Language (RFC 9110 §12.5.4): the most
// preferred one that this package has. Every variant of Chinese gives Chinese. An empty or invalid
// value and other languages give English. Only the first maxAcceptLanguage bytes count.
func Negotiate(header string) Lang {
	if len(header) > maxAcceptLanguage {
		end := strings.LastIndexByte(header[:maxAcceptLanguage], ',')
		header = header[:max(end, 0)]
	}
	wanted, weights, err := language.ParseAcceptLanguage(header) // ordered by weight, highest first
	if err != nil || len(wanted) == 0 || !(weights[0] <= 1) {
		return English
	}
	for _, tag := range wanted {
		if base, _ := tag.Base(); base.String() == "zh" {
			// Checked before the matcher, which does not match traditional to simplified Chinese.
			return Chinese
		}
		if _, i, confidence := matcher.Match(tag); confidence >= language.Low {
			return Lang(i)
		}
	}
	return English
}
