package invoice

import (
	"strings"
	"unicode"
)

// Key identifies an invoice worldwide: its issuer, number and date. Two documents with equal keys
// are duplicates if their hashes are equal, and in conflict otherwise. The texts are normalized for
// comparison, not for display.
type Key struct {
	Seller string // normalized, from Party.Identity
	Number string
	Date   Date
}

// Key returns the document's key. It is complete only if the document satisfies the rules on
// seller, number and date.
func (d *Document) Key() Key {
	return Key{Seller: d.Seller.Identity(), Number: plainText(d.Number), Date: d.Date}
}

// Complete reports whether the key has a seller, a number and a date.
func (k Key) Complete() bool { return k.Seller != "" && k.Number != "" && k.Date != 0 }

// plainID returns a tax id in upper case, without the spaces, dots and dashes that people add for
// reading.
func plainID(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '.' || r == '-' {
			return -1
		}
		return unicode.ToUpper(r)
	}, s)
}

// plainText returns a text without leading and trailing space, and with single spaces between
// words.
func plainText(s string) string { return strings.Join(strings.Fields(s), " ") }
