package export

import (
	"path"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// naming is a compiled pattern for the paths of entries in the zip: text with field names in
// braces, and slashes between folders. A field without a value is empty; path elements that become
// empty are dropped. nil means no pattern.
type naming []string // alternating: text, field, text, field, ...

// The fields of a pattern: dateFields in every pattern, the others for files or for documents.
var (
	dateFields     = []string{"date", "year", "month", "day"}
	fileFields     = append([]string{"name", "folder"}, dateFields...)
	documentFields = append([]string{"seller", "number", "source", "id"}, dateFields...)
)

const maxNaming = 500 // bytes of a pattern

// parseNaming compiles a pattern for files, or for documents. It returns nil for an empty pattern.
// It returns BadRequest for an invalid one, an unknown field, or a pattern without a field.
func parseNaming(pattern string, documents bool) (naming, error) {
	fields := fileFields
	if documents {
		fields = documentFields
	}
	bad := drive.BadField("names", drive.Malformed, "expected", "a pattern such as {"+fields[0]+"}/{date} {"+fields[1]+"}; fields: "+strings.Join(fields, ", "))
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
	if len(n) == 1 { // without a field, all entries would have the same name
		return nil, bad
	}
	return n, nil
}

// expand returns the path that the pattern gives for the field values; a missing value is empty.
// Empty folders and "." and ".." are left out.
func (n naming) expand(values map[string]string) string {
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

// fileName returns the path in the zip of a file. in is the path of its folder, relative to the
// exported folder; changed is its modification time. A pattern without the field name keeps the
// extension of the file.
func (n naming) fileName(in string, name drive.Name, changed time.Time) string {
	if n == nil {
		return path.Join(in, string(name))
	}
	named := n.expand(map[string]string{
		"name": string(name), "folder": in,
		"date": changed.Format(time.DateOnly), "year": changed.Format("2006"), "month": changed.Format("01"), "day": changed.Format("02"),
	})
	if !n.uses("name") {
		named += path.Ext(string(name))
	}
	return named
}

// uses reports whether the pattern has a placeholder for field. The odd elements of n are
// placeholders. An empty pattern uses none.
func (n naming) uses(field string) bool {
	for i := 1; i < len(n); i += 2 {
		if n[i] == field {
			return true
		}
	}
	return false
}

// documentName returns the path in the zip of a document, without extension: by the pattern, or
// date and number without one. It may be empty.
func (n naming) documentName(d Document) string {
	if n == nil {
		return strings.TrimSpace(d.Date + " " + replaceSlashes(d.Number))
	}
	values := map[string]string{"seller": replaceSlashes(d.Seller), "number": replaceSlashes(d.Number), "source": replaceSlashes(d.Source), "id": d.ID, "date": d.Date}
	if len(d.Date) == len(time.DateOnly) {
		values["year"], values["month"], values["day"] = d.Date[:4], d.Date[5:7], d.Date[8:]
	}
	return n.expand(values)
}

// replaceSlashes replaces slashes in a sender's text, so that it cannot create folders in the zip.
func replaceSlashes(s string) string { return strings.NewReplacer("/", "-", "\\", "-").Replace(s) }
