package dav_test

import (
	"context"
	"net/http"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// hostile are properties and lock owners that are well-formed to package xml, and that break, or
// may break, the answer that repeats them.
var hostile = []string{
	`<o xml:lang="de" xml:space="preserve">x</o>`,
	`<xml:o>x</xml:o>`,
	`<a:o xmlns:a="http://www.w3.org/XML/1998/namespace" a:lang="de"/>`,
	`<o xmlns="http://www.w3.org/XML/1998/namespace"/>`,
	`<xml:o xmlns:xml="http://www.w3.org/XML/1998/namespace"><xml:p xml:q="1"/></xml:o>`,
	`<o a="1" a="2"/>`,
	`<o xml:lang="1" xml:lang="2"/>`,
	`<o xmlns:a="u" xmlns:b="u" a:x="1" b:x="2"/>`,
	`<o xmlns:a="u" xmlns:a="v"/>`,
	`<o xmlns:y="xml" y:lang="1" xml:lang="2"/>`,
	`<a:1b xmlns:a="u"/>`,
	`<o xmlns:a="u" a:-b="1"/>`,
	`<o xmlns:a="u" a:.b="1"/>`,
	`<xmlns:o/>`,
	`<a:o xmlns:a="http://www.w3.org/2000/xmlns/"/>`,
	`<o xmlns:a="http://www.w3.org/2000/xmlns/" a:b="1"/>`,
	`<o xmlns="http://www.w3.org/2000/xmlns/"/>`,
	`<o xmlns:xml="u"/>`, `<o xmlns:xmlns="u"/>`,
	`<nobody:o/>`, `<o nobody:a="1"/>`,
	`<o xmlns=""><p xmlns="u"/>]]&gt;&#13;&#x202e;</o>`,
	`<o xmlns:D="x" D:a="&quot;&lt;"><D:p/></o>`,
	`<!-- -- --><o/>`, `<![CDATA[<D:href>]]>`, `<?xml-stylesheet x?>`, `&#xFFFE;`,
}

// What one editor says of a file must not keep others from reading the folder's listing.
func TestHostileXMLLeavesTheListingWellFormed(t *testing.T) {
	t.Parallel()
	for _, body := range hostile {
		s := newStack(t)
		s.Do(t, "PUT /dav/files/a.txt", "", "a").Want(t, http.StatusCreated)
		for _, prop := range []string{body, `<v xmlns="urn:v" xml:lang="de">` + body + "</v>"} {
			s.Do(t, "PROPPATCH /dav/files/a.txt", "", `<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop>`+prop+"</D:prop></D:set></D:propertyupdate>")
		}
		s.Do(t, "LOCK /dav/files/a.txt", "Depth: 0", "", `<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner xml:lang="de">`+body+"</D:owner></D:lockinfo>")
		for _, ask := range []string{"<D:allprop/>", "<D:propname/>", `<D:prop><D:lockdiscovery/><v xmlns="urn:v"/>` + body + `</D:prop>`} {
			a := s.Do(t, "PROPFIND /dav/files/", "Depth: 1", "", `<D:propfind xmlns:D="DAV:">`+ask+"</D:propfind>")
			if t.Failed() {
				t.Fatalf("after %s", body)
			}
			if ask == "<D:allprop/>" {
				a.Want(t, http.StatusMultiStatus).Has(t, "a.txt")
			}
		}
	}
}

// Installations hold properties that were stored before names were checked.
func TestStoredIllFormedPropertiesAreNotListed(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT /dav/files/a.txt", "", "a").Want(t, http.StatusCreated)
	for _, p := range [][3]string{
		{"urn:v", "v", `<o xmlns="http://www.w3.org/XML/1998/namespace"/>`},
		{"http://www.w3.org/XML/1998/namespace", "w", "kept"},
		{"http://www.w3.org/2000/xmlns/", "x", ""},
		{"u", "1b", ""},
	} {
		if err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO dav_properties (node_id, space, name, account_id, value, size)
				SELECT id, ?, ?, account_id, ?, 1 FROM nodes WHERE name = 'a.txt'`, p[0], p[1], p[2])
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	s.Do(t, "PROPFIND /dav/files/", "Depth: 1", "", `<D:propfind xmlns:D="DAV:"><D:allprop/></D:propfind>`).
		Want(t, http.StatusMultiStatus).Has(t, "a.txt", "<xml:w>kept</xml:w>").Lacks(t, "1b")
}
