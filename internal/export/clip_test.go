package export

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What a server says of a document may be cut in the middle of a character, or be no text at all;
// MySQL would take neither, and the whole batch would fail with it.
func TestADetailIsTextHoweverLong(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "status 404 Not Found", strings.Repeat("é", 200), "a\xffb", strings.Repeat("界", 85)} {
		cut := truncate(s)
		if len(cut) > 255 || !utf8.ValidString(cut) {
			t.Errorf("%q is cut to %q", s, cut)
		}
		if utf8.ValidString(s) && (!strings.HasPrefix(s, cut) || len(s) <= 255 && s != cut) {
			t.Errorf("%q has become %q", s, cut)
		}
	}
}
