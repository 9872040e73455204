package export

import (
	"path"
	"slices"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
)

// naming is a pattern that gives entries their paths in the zip: text with fields in braces, and
// slashes between folders. Of what has no value for a field the field is empty; a folder without a
// name is left out.
type naming []string // text, field, text, field ...

// The fields: of every entry, of a file of a folder, of a document that was taken in.
var (
	dateFields     = []string{"date", "year", "month", "day"}
	fileFields     = append([]string{"name", "folder"}, dateFields...)
	documentFields = append([]string{"seller", "number", "source", "id"}, dateFields...)
)

const maxNaming = 500 // bytes of a pattern

// parseNaming reads a pattern; empty: there is none.
func parseNaming(pattern string, documents bool) (naming, error) {
	fields := fileFields
	if documents {
		fields = documentFields
	}
	bad := drive.Bad("names", drive.Malformed, "expected", "a pattern such as {"+fields[0]+"}/{date} {"+fields[1]+"}; fields: "+strings.Join(fields, ", "))
	if pattern == "" {
		return nil, nil
	}
	if len(pattern) > maxNaming || strings.ContainsFunc(pattern, func(r rune) bool { return r < ' ' }) {
		return nil, bad
	}
	var n naming
	for rest := pattern; ; {
		text, after, found := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, bad
		}
		n = append(n, text)
		if !found {
			break
		}
		field, behind, closed := strings.Cut(after, "}")
		if !closed || !slices.Contains(fields, field) {
			return nil, bad
		}
		n, rest = append(n, field), behind
	}
	if len(n) == 1 { // all would be called the same
		return nil, bad
	}
	return n, nil
}

// of gives the name of an entry whose fields have these values.
func (n naming) of(values map[string]string) string {
	var b strings.Builder
	for i, part := range n {
		if i%2 == 1 {
			part = values[part]
		}
		b.WriteString(part)
	}
	var kept []string
	for folder := range strings.SplitSeq(b.String(), "/") {
		if folder = strings.TrimSpace(folder); folder != "" && folder != "." && folder != ".." {
			kept = append(kept, folder)
		}
	}
	return strings.Join(kept, "/")
}

// ofFile names a file by what the drive says of it; in is the folder below the one that is
// exported.
func (n naming) ofFile(in string, name drive.Name, changed time.Time) string {
	if n == nil {
		return path.Join(in, string(name))
	}
	named := n.of(map[string]string{
		"name": string(name), "folder": in,
		"date": changed.Format(time.DateOnly), "year": changed.Format("2006"), "month": changed.Format("01"), "day": changed.Format("02"),
	})
	if !n.has("name") {
		named += path.Ext(string(name))
	}
	return named
}

func (n naming) has(field string) bool {
	for i := 1; i < len(n); i += 2 {
		if n[i] == field {
			return true
		}
	}
	return false
}

// ofDocument names a document, without the extension.
func (n naming) ofDocument(d Document) string {
	if n == nil {
		return strings.TrimSpace(d.Date + " " + flat(d.Number))
	}
	values := map[string]string{"seller": flat(d.Seller), "number": flat(d.Number), "source": flat(d.Source), "id": d.ID, "date": d.Date}
	if len(d.Date) == len(time.DateOnly) {
		values["year"], values["month"], values["day"] = d.Date[:4], d.Date[5:7], d.Date[8:]
	}
	return n.of(values)
}

// flat keeps a text of a sender from making folders in the zip.
func flat(s string) string { return strings.NewReplacer("/", "-", "\\", "-").Replace(s) }
