package account

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"smartdrive/internal/base/drive"
)

//go:embed guessable.txt
var guessableText string

var guessableWords = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{}
	for line := range strings.Lines(guessableText) {
		if word := strings.TrimSpace(line); word != "" && !strings.HasPrefix(word, "#") {
			words[word] = true
		}
	}
	return words
})

// allDigits is what a password without a letter has at least: dates and numbers of telephones are
// shorter.
const allDigits = 16

// guessable reports whether a password is among the first that somebody tries who knows the user's
// name: one or two common words, or the name, whatever digits and signs stand around them; a few
// characters over and over; a row of neighbours (NIST SP 800-63B §5.1.1.2).
func guessable(password, name string) bool {
	lower, own := drive.Name(password).Fold(), drive.Name(name).Fold()
	if repeats(lower) || follows(lower) || letters(lower) == "" && utf8.RuneCountInString(lower) < allDigits {
		return true
	}
	for _, known := range []string{own, reversed(own)} {
		if rest := strings.ReplaceAll(lower, known, ""); rest != lower && utf8.RuneCountInString(rest) < MinPasswordBytes/2 {
			return true
		}
	}
	trimmed := strings.TrimFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) })
	return common(letters(lower)) || common(letters(undo.Replace(lower))) || common(letters(undo.Replace(trimmed)))
}

// common reports whether s is one or two words of the list.
func common(s string) bool {
	words := guessableWords()
	for i := range s {
		if words[s[i:]] && (i == 0 || words[s[:i]]) {
			return true
		}
	}
	return false
}

// undo turns the digits and signs that people write for letters back.
var undo = strings.NewReplacer("0", "o", "1", "i", "!", "i", "3", "e", "4", "a", "@", "a", "5", "s", "$", "s", "7", "t", "8", "b")

// letters is what is left of a password without its digits, signs and spaces.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, s)
}

func reversed(s string) string {
	r := []rune(s)
	for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
		r[i], r[j] = r[j], r[i]
	}
	return string(r)
}

// repeats reports whether s is one piece of at most four characters over and over.
func repeats(s string) bool {
	r := []rune(s)
	for n := 1; n <= 4; n++ {
		same := len(r) > n
		for i := n; i < len(r) && same; i++ {
			same = r[i] == r[i-n]
		}
		if same {
			return true
		}
	}
	return false
}

// follows reports whether each character is the neighbour of the one before, up or down:
// 1234567890, abcdefghij. 0 comes after 9, too.
func follows(s string) bool {
	r := []rune(strings.ReplaceAll(s, "90", "9:")) // ':' follows '9'
	for _, step := range []rune{1, -1} {
		all := len(r) > 1
		for i := 1; i < len(r) && all; i++ {
			all = r[i]-r[i-1] == step
		}
		if all {
			return true
		}
	}
	return false
}
