package zipline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"

	"example.org/smartdrive/internal/base/drive"
)

func TestSafeNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("发票", 50) // 300 bytes
	for name, c := range map[string]struct{ wanted, safe []string }{
		"kept":                {[]string{"disk/店铺/发票 1.pdf", "a.b.c", ".hidden", "Ünïcode–ok", "👩‍👩‍👧.png"}, nil},
		"zip slip":            {[]string{"../../etc/passwd", "a/../../b", `..\..\c`, "/./d", ".. /e"}, []string{"etc/passwd", "a/b", `.._.._c`, "d", "_/e"}},
		"absolute":            {[]string{"/etc/hosts", "//server/share", `C:\x`, "C:/x"}, []string{"etc/hosts", "server/share", "C__x", "C_/x"}},
		"devices":             {[]string{"CON", "nul.txt", "Com1.tar.gz", "lpt¹", "aux .pdf", "COM10", "console", "prn/x"}, []string{"_CON", "_nul.txt", "_Com1.tar.gz", "_lpt¹", "_aux .pdf", "COM10", "console", "_prn/x"}},
		"ends":                {[]string{"a.", "b ", "c. . ", "d /e.", "..."}, []string{"a", "b", "c", "d/e", "_"}},
		"refused by Windows":  {[]string{`a<b>c:d"e|f?g*h\i`}, []string{"a_b_c_d_e_f_g_h_i"}},
		"control characters":  {[]string{"a\x00b\nc\x7fd\u0085e", "gpj\u202eexe", "\ufeffx"}, []string{"a_b_c_d_e", "gpj_exe", "_x"}},
		"not UTF-8":           {[]string{"\xb7\xa2\xc6\xb1.pdf"}, []string{"_Ʊ.pdf"}},
		"NFC":                 {[]string{"e\u0301.txt"}, []string{"\u00e9.txt"}},
		"nothing left":        {[]string{"", "/", "..", "../"}, []string{"_ (2)", "_/", "_ (3)", "_ (4)/"}},
		"twice":               {[]string{"a.pdf", "a.pdf", "A.PDF", "b"}, []string{"a.pdf", "a (2).pdf", "A (3).PDF", "b"}},
		"a number is taken":   {[]string{"a", "a", "a (2)"}, []string{"a", "a (3)", "a (2)"}},
		"normalisation":       {[]string{"\u00e9", "e\u0301", "É"}, []string{"\u00e9", "\u00e9 (2)", "É (3)"}},
		"case of non-ASCII":   {[]string{"STRASSE", "Straße"}, []string{"STRASSE", "Straße (2)"}},
		"file and folder":     {[]string{"a", "A/b", "A/b/c"}, []string{"a (2)", "A/b (2)", "A/b/c"}},
		"folders":             {[]string{"a/", "a", "A/", "a/b/"}, []string{"a/", "a (2)", "A (3)/", "a/b/"}},
		"long":                {[]string{long + ".pdf", long + ".pdf"}, []string{long[:249] + ".pdf", long[:246] + " (2).pdf"}},
		"long extension":      {[]string{"x." + long}, []string{"x." + long[:252]}},
		"long way":            {[]string{strings.Repeat("folder/", 200) + "x"}, []string{strings.Repeat("folder/", 109) + "x"}},
		"not between marks":   {[]string{strings.Repeat("x", 254) + "a\u0323\u0323"}, []string{strings.Repeat("x", 254)}},
		"shortened to device": {[]string{"CONX" + strings.Repeat("\u0323", 200) + ".txt"}, []string{"_CON.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := c.safe
			if want == nil {
				want = c.wanted
			}
			if diff := cmp.Diff(want, SafeNames(c.wanted)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Ten thousand equal names must not take quadratic time.
func TestSafeNamesManyEqual(t *testing.T) {
	t.Parallel()
	got := SafeNames(slices.Repeat([]string{"扫描.pdf"}, 10_000))
	if got[9_999] != "扫描 (10000).pdf" {
		t.Errorf("the last one is %q", got[9_999])
	}
}

// Long names that differ only where the number is inserted do not each try all numbers.
func TestSafeNamesManyLong(t *testing.T) {
	t.Parallel()
	var wanted []string
	for i := range 10_000 {
		name := strings.Repeat("x", drive.MaxNameBytes-4) + fmt.Sprintf("%04d", i)
		wanted = append(wanted, name, name)
	}
	d := deduper{taken: map[string]bool{}, parents: map[string]bool{}, next: map[string]int{}}
	for _, name := range wanted {
		if !d.reserve(name) {
			d.nextFree(name)
		}
	}
	if len(d.next) != 1 {
		t.Errorf("%d counters for names that meet", len(d.next))
	}
}

func FuzzSafeNames(f *testing.F) {
	f.Add("a.pdf\na.pdf\nA.PDF\na/b\na (2).pdf")
	f.Add("../x\nC:\\con\nCOM1 .x\n....\n e\u0301\nÉ/ É")
	f.Add(strings.Repeat("d/", 600) + "\n" + strings.Repeat("é", 200) + ".txt\n/\n//")
	f.Add("CONX" + strings.Repeat("\u0323", 200) + ".txt\n\xff\xfe")
	f.Fuzz(func(t *testing.T, list string) {
		wanted := strings.Split(list, "\n")
		safe := SafeNames(wanted)
		if len(safe) != len(wanted) {
			t.Fatalf("%d names for %d", len(safe), len(wanted))
		}
		if diff := cmp.Diff(safe, SafeNames(safe)); diff != "" {
			t.Errorf("not stable for %q (-once +twice):\n%s", wanted, diff)
		}
		entries := make([]Entry, len(safe))
		for i, n := range safe {
			entries[i].Name = n
		}
		if _, err := Layout(entries); err != nil {
			t.Errorf("no archive: %v", err)
		}
		files, folders := map[string]bool{}, map[string]bool{}
		for _, n := range safe {
			checkSafe(t, n)
			for i := range n {
				if n[i] == '/' {
					folders[fold(n[:i])] = true
				}
			}
		}
		for _, n := range safe {
			if key := fold(n); files[key] || folders[key] {
				t.Errorf("%q is there twice in %q", n, safe)
			} else {
				files[key] = true
			}
		}
	})
}

// checkSafe restates the rules independently of the implementation.
func checkSafe(t *testing.T, name string) {
	t.Helper()
	if !utf8.ValidString(name) || !norm.NFC.IsNormalString(name) || len(name) > 1024 {
		t.Errorf("%q: not UTF-8 in NFC of at most 1024 bytes", name)
	}
	for s := range strings.SplitSeq(strings.TrimSuffix(name, "/"), "/") {
		switch upper := strings.ToUpper(s); {
		case s == "" || len(s) > 255:
			t.Errorf("%q has a segment of %d bytes", name, len(s))
		case strings.HasSuffix(s, ".") || strings.HasSuffix(s, " "):
			t.Errorf("%q has a segment that ends with %q", name, s[len(s)-1])
		case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`\:*?"<>|`, r) }):
			t.Errorf("%q has a character that Windows refuses", name)
		case upper == "NUL" || upper == "CON" || strings.HasPrefix(upper, "AUX.") || strings.HasPrefix(upper, "COM1."):
			t.Errorf("%q names a device", name)
		}
	}
}
