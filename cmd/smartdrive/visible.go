package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapeInvisible replaces invisible characters by escapes such as \u202e. Names come from other
// people, and such characters can disguise a name or control the terminal. It keeps tabs and line
// breaks, and zero-width joiners between non-ASCII letters or pictographs, where they are needed.
func escapeInvisible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return isInvisible(r) && r != '\n' }) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case !isInvisible(r), r == '\n', r == '\t', (r == zwnj || r == zwj) && joinsLetters(text, i):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Zero-width non-joiner and joiner.
const (
	zwnj = '\u200c'
	zwj  = '\u200d'
)

// visibleFormats are format characters that are visible: Arabic, Syriac and Kaithi signs around
// numbers (Unicode's Prepended_Concatenation_Mark).
var visibleFormats = map[rune]bool{
	0x600: true, 0x601: true, 0x602: true, 0x603: true, 0x604: true, 0x605: true, 0x6DD: true, 0x70F: true, 0x890: true, 0x891: true,
	0x8E2: true, 0x110BD: true, 0x110CD: true,
}

// isInvisible reports whether a character is invisible: control and format characters including
// bidirectional ones, line separators, and fillers that count as letters or marks.
func isInvisible(r rune) bool {
	switch r {
	case 0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !visibleFormats[r]
}

// joinsLetters reports whether the joiner at index i stands between two non-ASCII letters or
// pictographs.
func joinsLetters(text string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	_, size := utf8.DecodeRuneInString(text[i:])
	after, _ := utf8.DecodeRuneInString(text[i+size:])
	return isJoinable(before) && isJoinable(after)
}

// isJoinable reports whether a joiner may stand beside r. RuneError, which also marks the beginning
// and end of the text, is not joinable.
func isJoinable(r rune) bool {
	return r > unicode.MaxASCII && r != utf8.RuneError && !isInvisible(r) && !unicode.Is(unicode.Z, r)
}
