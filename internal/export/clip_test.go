package export

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A server's text may be cut within a character or be invalid UTF-8; MySQL refuses both, and the
// batch would fail.
func TestTruncateKeepsValidUTF8(t *testing.T) {
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
