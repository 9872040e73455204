package account

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

//go:embed guessable.txt
var guessableText string

// guessableWords returns the set of words that must not be a password, read from the embedded list
// on the first call.
var guessableWords = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{}
	for line := range strings.Lines(guessableText) {
		if word := strings.TrimSpace(line); word != "" && !strings.HasPrefix(word, "#") {
			words[word] = true
		}
	}
	return words
})

// minDigitsOnly is the minimum length of a password without letters; dates and phone numbers are
// shorter.
const minDigitsOnly = 16

// isGuessable reports whether a password is among the first guesses of an attacker who knows the
// user name: one or two common words, or the name, with any digits and signs around; a repeated
// short piece; a sequence of neighbors (NIST SP 800-63B §5.1.1.2).
func isGuessable(password, name string) bool {
	lower, own := drive.Name(password).Fold(), drive.Name(name).Fold()
	if isRepetition(lower) || isSequence(lower) || onlyLetters(lower) == "" && utf8.RuneCountInString(lower) < minDigitsOnly {
		return true
	}
	for _, known := range []string{own, reversed(own)} {
		if rest := strings.ReplaceAll(lower, known, ""); rest != lower && utf8.RuneCountInString(rest) < MinPasswordBytes/2 {
			return true
		}
	}
	trimmed := strings.TrimFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) })
	return isCommon(onlyLetters(lower)) || isCommon(onlyLetters(leetspeak.Replace(lower))) || isCommon(onlyLetters(leetspeak.Replace(trimmed)))
}

// isCommon reports whether s is a word of the list or two of them without anything in between;
// false for an empty string.
func isCommon(s string) bool {
	words := guessableWords()
	for i := range s {
		if words[s[i:]] && (i == 0 || words[s[:i]]) {
			return true
		}
	}
	return false
}

// leetspeak replaces digits and signs by the letters they stand for.
var leetspeak = strings.NewReplacer("0", "o", "1", "i", "!", "i", "3", "e", "4", "a", "@", "a", "5", "s", "$", "s", "7", "t", "8", "b")

// onlyLetters removes everything but letters from s.
func onlyLetters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, s)
}

// reversed returns the characters of s in reverse order.
func reversed(s string) string {
	r := []rune(s)
	for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
		r[i], r[j] = r[j], r[i]
	}
	return string(r)
}

// isRepetition reports whether s repeats one piece of one to four characters; the last repetition
// may be cut off (abcab). It returns false for an empty string and a single character.
func isRepetition(s string) bool {
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

// isSequence reports whether each character follows or precedes the one before: 1234567890,
// abcdefghij. 0 counts as the successor of 9.
func isSequence(s string) bool {
	r := []rune(strings.ReplaceAll(s, "90", "9:")) // ':' is the character after '9'
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
