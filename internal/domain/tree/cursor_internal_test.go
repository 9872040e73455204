package tree

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

func FuzzParseCursor(f *testing.F) {
	at, err := parseCursor("", "children/x/name", true)
	if err != nil {
		f.Fatal(err)
	}
	at.Number, at.Text = 7, "a"
	f.Add(at.String())
	f.Add("")
	f.Add("eyJ2IjoxfQ")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text, "children/x/name", true)
		if err != nil {
			if !drive.IsKind(err, drive.CursorInvalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := parseCursor(c.String(), c.List, c.Desc)
		if text != "" && (err != nil || again != c) {
			t.Fatalf("%q became %+v and then %+v, %v", text, c, again, err)
		}
		if _, err := parseCursor(c.String(), "children/y/name", true); err == nil {
			t.Fatalf("%q fits another list", text)
		}
	})
}

func FuzzParsePosition(f *testing.F) {
	f.Add("")
	f.Add("12")
	f.Add("12.99")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePosition(text)
		if err != nil {
			if !drive.IsKind(err, drive.BadRequest) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if text != "" && p.String() != text || p.Seq < 0 || p.Base < 0 {
			t.Fatalf("%q became %+v", text, p)
		}
	})
}
