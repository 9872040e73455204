package invoice

import (
	"strings"
	"unicode"
)

// Key is what makes an invoice one invoice of the world: who issued it, under which number, when.
// Two documents of one key with one Hash are duplicates; with two, a conflict. The texts are in one
// spelling, for comparing and not for showing.
type Key struct {
	Seller string // Party.Identity
	Number string
	Date   Date
}

// Key returns the document's key. It is complete only if the document has passed the rules on
// seller, number and date.
func (d *Document) Key() Key {
	return Key{Seller: d.Seller.Identity(), Number: plainText(d.Number), Date: d.Date}
}

// Complete reports whether the key identifies a document.
func (k Key) Complete() bool { return k.Seller != "" && k.Number != "" && k.Date != 0 }

// plainID is a tax id in one spelling: capitals, and no spaces, dots or dashes, which people add
// for reading.
func plainID(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '.' || r == '-' {
			return -1
		}
		return unicode.ToUpper(r)
	}, s)
}

// plainText is a text without space around it and with single spaces inside.
func plainText(s string) string { return strings.Join(strings.Fields(s), " ") }
