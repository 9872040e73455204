package dav

import (
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/head/dav/davtest"
)

// What is read of an If header is bounded and whole: every list has conditions, each of them a
// token or a tag.
func FuzzIf(f *testing.F) {
	for _, text := range []string{
		`(<urn:uuid:1> ["a)b"]) (Not <DAV:no-lock> ["c"])`, `<http://host/a> (<x>) (["y"]) </b> (not <z>)`, "()", "(<a>", `(["a)`, "(<>)",
		strings.Repeat("(<a>)", maxLists+1), "(not not <a>)", "(W/[\"a\"])", "<a>(<b>)\x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseIf(text)
		if err != nil {
			return
		}
		if len(all) == 0 || len(all) > maxLists {
			t.Fatalf("%d lists", len(all))
		}
		for _, l := range all {
			if len(l.conditions) == 0 {
				t.Fatal("a list without a condition holds for everybody")
			}
			for _, c := range l.conditions {
				if (c.token == "") == (c.tag == "") {
					t.Fatalf("%+v", c)
				}
			}
			if _, ok := (ifResource{}).satisfies(l.conditions); ok { // nothing is there, and nothing is locked
				for _, c := range l.conditions {
					if !c.not {
						t.Fatalf("%+v holds of nothing", c)
					}
				}
			}
		}
	})
}

// A body is parsed within its bounds or refused, and no entity is resolved. XML that is written
// from it is well-formed and is parsed to the same values.
func FuzzBody(f *testing.F) {
	for _, text := range []string{
		`<propfind xmlns="DAV:"><prop><getetag/></prop></propfind>`, `<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"/>`,
		`<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>`, `<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><a>&y;</a>`,
		strings.Repeat("<a>", 1000), "<a", "", "<a/><b/>", `<?xml version="1.0" encoding="utf-16"?><a/>`, "<a>\x00</a>",
		`<p xmlns:a="u" xmlns:b="u"><xml:o xml:lang="d" a:x="1" b:y="&#13;">]]&gt;</xml:o><a:1/></p>`, `<p><o xmlns="http://www.w3.org/2000/xmlns/"/></p>`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := http.NewRequestWithContext(t.Context(), "PROPFIND", "/", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		root, found, err := readBody(r)
		if err == nil && found && root.Name.Local == "" {
			t.Fatalf("%q was read as %+v", text, root)
		}
		if strings.HasPrefix(text, "<!DOCTYPE") && err == nil {
			t.Fatalf("a document type was taken: %q", text)
		}
		if err := davtest.Strict("<a>" + root.Inner + "</a>"); err != nil {
			t.Fatalf("%q is written again as %q: %v", text, root.Inner, err)
		}
		if again := wellFormed(root.Inner); again != root.Inner {
			t.Fatalf("%q, read again: %q", root.Inner, again)
		}
	})
}
