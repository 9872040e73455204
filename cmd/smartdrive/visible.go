package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible spells out the characters of a text that one cannot see, as \u202e: names come from other
// people, and with such characters one looks like another, or commands the terminal. Those that
// join or part letters stay between letters of other scripts and in pictures, where they belong,
// and so do tabs and line breaks, of which our own lines are made.
func visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return unseen(r) && r != '\n' }) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case !unseen(r), r == '\n', r == '\t', (r == zwnj || r == zwj) && joins(text, i):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Joiners, by their names in Unicode.
const (
	zwnj = '\u200c'
	zwj  = '\u200d'
)

// seenFormats are format characters that one sees: signs of Arabic, Syriac and Kaithi that stand
// around numbers (Unicode's Prepended_Concatenation_Mark).
var seenFormats = map[rune]bool{
	0x600: true, 0x601: true, 0x602: true, 0x603: true, 0x604: true, 0x605: true, 0x6DD: true, 0x70F: true, 0x890: true, 0x891: true,
	0x8E2: true, 0x110BD: true, 0x110CD: true,
}

// unseen reports whether a character shows nothing: controls and format characters, the
// bidirectional ones among them, separators of lines, and fillers that count as letters or marks.
func unseen(r rune) bool {
	switch r {
	case 0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !seenFormats[r]
}

// joins reports whether both neighbours of the joiner at i are letters or pictures beyond ASCII.
func joins(text string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	_, size := utf8.DecodeRuneInString(text[i:])
	after, _ := utf8.DecodeRuneInString(text[i+size:])
	return joinable(before) && joinable(after)
}

// joinable: RuneError is also what stands before the beginning and behind the end.
func joinable(r rune) bool {
	return r > unicode.MaxASCII && r != utf8.RuneError && !unseen(r) && !unicode.Is(unicode.Z, r)
}
