package rest

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
)

var update = flag.Bool("update", false, "rewrite docs/api.md")

type object = map[string]any

func document(t *testing.T) object {
	t.Helper()
	var doc object
	document, _ := New(Options{}).documents()
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestTheDocumentIsOpenAPI walks the document by the structure of the OpenAPI 3.1.0 specification.
func TestTheDocumentIsOpenAPI(t *testing.T) {
	t.Parallel()
	doc := document(t)
	if doc["openapi"] != "3.1.0" || doc["info"].(object)["title"] == "" || doc["info"].(object)["version"] == "" {
		t.Error("openapi and info are needed")
	}
	w := &walker{t: t, schemas: doc["components"].(object)["schemas"].(object), ids: map[string]bool{}}
	for path, item := range doc["paths"].(object) {
		for method, op := range item.(object) {
			w.operation(strings.ToUpper(method)+" "+path, path, op.(object))
		}
	}
	for name, s := range w.schemas {
		w.schema("schema "+name, s.(object))
	}
	if len(w.ids) != len(New(Options{}).routes) {
		t.Errorf("%d operations are described, there are %d", len(w.ids), len(New(Options{}).routes))
	}
}

type walker struct {
	t       *testing.T
	schemas object
	ids     map[string]bool
}

func (w *walker) operation(where, path string, op object) {
	id, _ := op["operationId"].(string)
	if id == "" || w.ids[id] {
		w.t.Errorf("%s: the operationId %q is empty or not unique", where, id)
	}
	w.ids[id] = true
	params, _ := op["parameters"].([]any)
	inPath := map[string]bool{}
	for _, p := range params {
		p := p.(object)
		if p["in"] == "path" {
			inPath[p["name"].(string)] = p["required"] == true
		} else if p["in"] != "query" && p["in"] != "header" {
			w.t.Errorf("%s: parameter %v is in %v", where, p["name"], p["in"])
		}
		w.schema(where, p["schema"].(object))
	}
	for segment := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok && !inPath[strings.TrimSuffix(name, "}")] {
			w.t.Errorf("%s: %s is not described as required", where, segment)
		}
	}
	if body, ok := op["requestBody"].(object); ok {
		w.content(where+" body", body["content"].(object))
	}
	responses := op["responses"].(object)
	if len(responses) == 0 {
		w.t.Errorf("%s: no response", where)
	}
	for status, r := range responses {
		if n, err := strconv.Atoi(status); err != nil || n < 200 || n > 599 || r.(object)["description"] == "" {
			w.t.Errorf("%s: response %s is not well described", where, status)
		}
		if content, ok := r.(object)["content"].(object); ok {
			w.content(where+" "+status, content)
		}
	}
}

func (w *walker) content(where string, content object) {
	for media, c := range content {
		if !strings.Contains(media, "/") {
			w.t.Errorf("%s: %q is no media type", where, media)
		}
		w.schema(where, c.(object)["schema"].(object))
	}
}

func (w *walker) schema(where string, s object) {
	if ref, ok := s["$ref"].(string); ok {
		if _, known := w.schemas[strings.TrimPrefix(ref, schemaPrefix)]; !known {
			w.t.Errorf("%s: %s is not there", where, ref)
		}
		return
	}
	types, isList := s["type"].([]any)
	if !isList && s["type"] != nil {
		types = []any{s["type"]}
	}
	for _, typ := range types {
		if !slices.Contains([]any{"string", "integer", "number", "boolean", "object", "array", "null"}, typ) {
			w.t.Errorf("%s: type %v", where, typ)
		}
	}
	properties, _ := s["properties"].(object)
	for name, p := range properties {
		w.schema(where+"."+name, p.(object))
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if properties[name.(string)] == nil {
			w.t.Errorf("%s: %v is required and not described", where, name)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := s[key].(object); ok {
			w.schema(where+"."+key, inner)
		}
	}
	if slices.Contains(types, any("array")) && s["items"] == nil {
		w.t.Errorf("%s: an array of what?", where)
	}
}

// TestTheDocumentTellsWhatMayBeNull pins the points where the types alone would mislead.
func TestTheDocumentTellsWhatMayBeNull(t *testing.T) {
	t.Parallel()
	schemas := document(t)["components"].(object)["schemas"].(object)
	property := func(path string) any {
		schema, name, _ := strings.Cut(path, ".")
		return schemas[schema].(object)["properties"].(object)[name].(object)["type"]
	}
	nullable := func(typ string) string { return fmt.Sprint([]any{typ, "null"}) }
	for path, want := range map[string]string{
		"UploadView.size": nullable("integer"), "NodeView.trashed_at": nullable("string"), "NodeView.parent_id": nullable("string"),
		"BeginBody.size": nullable("integer"), "BeginBody.part_size": "integer", "UserBody.total": nullable("integer"),
		"PageNodeView.next_cursor": nullable("string"), "PageNodeView.items": "array", "MeUsage.total": nullable("integer"),
		"NodeView.mtime": "string", "UploadView.reserved": "integer", "PartView.cv": nullable("string"),
	} {
		if got := fmt.Sprint(property(path)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := fmt.Sprint(schemas["BeginBody"].(object)["required"]); got != "[size]" {
		t.Errorf("begin needs %s", got)
	}
}

// TestTheTableIsComplete holds what every row must have.
func TestTheTableIsComplete(t *testing.T) {
	t.Parallel()
	for _, rt := range New(Options{}).routes {
		if rt.summary == "" || !strings.HasSuffix(rt.summary, ".") || rt.action.run == nil || len(rt.outcomes) == 0 {
			t.Errorf("%s lacks something", rt.pattern())
		}
		if rt.idempotent && rt.method != http.MethodPost {
			t.Errorf("%s takes a key and is no POST", rt.pattern())
		}
		if (rt.action.body != nil || rt.action.raw) && rt.method == http.MethodGet {
			t.Errorf("%s has a body", rt.pattern())
		}
		if strings.HasPrefix(rt.path, "/admin/") != (rt.access == admins) {
			t.Errorf("%s is for %q", rt.pattern(), rt.access)
		}
	}
}

const documentFile = "../../../docs/api.md"

// TestTheReferenceIsUpToDate renders docs/api.md; -update writes it.
func TestTheReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	want := markdown(New(Options{}).routes, document(t))
	if *update {
		if err := os.WriteFile(documentFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/api.md is not what the table says: go test ./internal/head/rest -run Reference -update")
	}
}

const preface = `# The native API

This page is generated from the table of routes in ` + "`internal/head/rest`" + `: ` + "`go test ./internal/head/rest -run Reference -update`" + `. The same table is
served as OpenAPI 3.1 at ` + "`/api/openapi.json`" + `, and as 3.0 at ` + "`/api/openapi-3.0.json`" + `. All addresses are under ` + "`/api/v1`" + `.

**Formats.** JSON in UTF-8, at most 1 MiB. Members that are not known, are repeated or have the wrong type are refused, and so are
query parameters; ` + "`null`" + ` is a value only where it says so. Ids are UUIDv7, sizes bytes, digests lower-case hex, times RFC 3339 in UTC
with milliseconds. Paths in JSON are absolute; in an address each name is percent-encoded by itself. An ETag of content is ` + "`\"b3-<hex>\"`" + `.

**Token.** ` + "`Authorization: Bearer TOKEN`" + `, from ` + "`POST /sessions`" + ` or ` + "`POST /tokens`" + `. Each address names the scope it needs; *admin* also needs
an administrator. What is not there and what is somebody else's are the same 404, and so is an id that cannot be one. Visitors of a share
and senders of a collect link have tokens of their own: see [sharing](sharing.md).

**Limits.** 32 requests of a user at a time; 100 POSTs of one kind a second, 200 at once; PATCHes of uploads likewise.

**Idempotency.** Where *Idempotency-Key* stands, a key of 1 to 255 printable ASCII characters makes the creation happen once: for 24 hours
a repeat gets the first answer with ` + "`Idempotent-Replayed: true`" + `, and the same key with another path or body is 422. What
` + "`POST /prepare`" + ` gives works as a key.

**HEAD** works wherever GET does, and knows no ranges.
`

// markdown renders the reference.
func markdown(routes []route, doc object) string {
	var b strings.Builder
	b.WriteString(preface)
	schemas := doc["components"].(object)["schemas"].(object)
	last := ""
	for i := range routes {
		rt := &routes[i]
		if rt.resource() != last {
			last = rt.resource()
			fmt.Fprintf(&b, "\n## %s%s\n", strings.ToUpper(last[:1]), last[1:])
		}
		writeRoute(&b, rt, schemas)
	}
	b.WriteString("\n## Objects\n")
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if s := schemas[name].(object); !strings.HasSuffix(name, "Body") && !strings.HasPrefix(name, "Page") && name != "Problem" {
			fmt.Fprintf(&b, "\n### %s\n", name)
			writeMembers(&b, s)
		}
	}
	writeProblems(&b)
	return b.String()
}

func writeRoute(b *strings.Builder, rt *route, schemas object) {
	need := "no token"
	if rt.access != open {
		need = "scope *" + rt.access.String() + "*"
	}
	fmt.Fprintf(b, "\n### %s %s\n\n%s\n(%s", rt.method, rt.path, rt.summary, need)
	if rt.senders {
		b.WriteString(", or a collect link's sender, for their own uploads")
	}
	if rt.idempotent {
		b.WriteString(", *Idempotency-Key*")
	}
	b.WriteString(")\n")
	if len(rt.query) > 0 {
		b.WriteString("\n| Parameter | Value | |\n|---|---|---|\n")
		for _, p := range rt.query {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.name, p.words(), p.doc)
		}
	}
	if len(rt.header) > 0 {
		fmt.Fprintf(b, "\nHeaders: %s.\n", strings.Join(rt.header, ", "))
	}
	switch {
	case rt.action.raw:
		b.WriteString("\nThe body is the bytes.\n")
	case rt.action.body != nil && rt.action.body.Kind() == reflect.Map:
		b.WriteString("\nThe body is a JSON object.\n")
	case rt.action.body != nil:
		writeMembers(b, schemas[schemaName(rt.action.body, "")].(object))
	}
	b.WriteString("\n")
	for _, o := range rt.outcomes {
		fmt.Fprintf(b, "- **%d** %s%s\n", o.status, o.description, bodyWords(o))
	}
	for _, line := range problemLines(rt.errors) {
		b.WriteString(line)
	}
}

func (p param) words() string {
	words := "text"
	switch p.syntax {
	case integer:
		words = fmt.Sprintf("%d to %d, default %d", p.min, p.max, p.def)
	case boolean:
		words = "`true` or `false`"
	case choice:
		words = "`" + strings.Join(p.choices, "`, `") + "`"
	case text:
	}
	if p.required {
		words += "; needed"
	}
	return words
}

func bodyWords(o outcome) string {
	if o.body == nil {
		return ""
	}
	if o.body.Kind() == reflect.Map {
		return ": a JSON object"
	}
	name := schemaName(o.body, "")
	if item, ok := strings.CutPrefix(name, "Page"); ok {
		return fmt.Sprintf(": `{items: [%s], next_cursor}`", link(item))
	}
	return ": " + link(name)
}

func link(name string) string { return "[" + name + "](#" + strings.ToLower(name) + ")" }

func problemLines(kinds []drive.Kind) []string {
	var lines []string
	groups := byStatus(kinds)
	for _, status := range slices.Sorted(maps.Keys(groups)) {
		lines = append(lines, fmt.Sprintf("- %d `%s`\n", status, strings.Join(groups[status], "`, `")))
	}
	return lines
}

func writeMembers(b *strings.Builder, s object) {
	b.WriteString("\n| Member | Type | |\n|---|---|---|\n")
	required, _ := s["required"].([]any)
	properties := s["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties[name].(object)
		mark := ""
		if slices.Contains(required, any(name)) {
			mark = " *"
		}
		about, _ := p["description"].(string)
		if def, ok := p["default"]; ok {
			about = strings.TrimPrefix(fmt.Sprintf("%s; default `%v`", about, def), "; ")
		}
		fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", name, mark, typeWords(p), about)
	}
}

func typeWords(p object) string {
	if ref, ok := p["$ref"].(string); ok {
		return link(strings.TrimPrefix(ref, schemaPrefix))
	}
	if either, ok := p["anyOf"].([]any); ok {
		return typeWords(either[0].(object)) + " or null"
	}
	if enum, ok := p["enum"].([]any); ok {
		return fmt.Sprintf("one of %v", enum)
	}
	words := ""
	switch typ := p["type"].(type) {
	case string:
		words = typ
	case []any:
		words = fmt.Sprintf("%v or %v", typ[0], typ[1])
	case nil:
		words = "any"
	}
	if p["format"] == "date-time" {
		words = strings.Replace(words, "string", "time", 1)
	}
	if items, ok := p["items"].(object); ok {
		return "list of " + typeWords(items)
	}
	return words
}

func writeProblems(b *strings.Builder) {
	b.WriteString("\n## Problems\n\nRFC 9457 documents `{type, title, status, detail, code, request_id, ...}` in English or Chinese (Accept-Language). Every\n" +
		"address may also answer 400 `bad-request`, 401 `unauthenticated`, 403 `forbidden`, 413 `too-large`, 415 `media-type`, 429 `rate`, 500\n" +
		"`internal` and 503 `stopping` or `unavailable`. `/problems/CODE` tells what to do about each.\n\n| Code | Status | |\n|---|---|---|\n")
	for _, kind := range drive.Kinds() {
		d := problem.From(drive.Fail(kind), problem.English, "")
		fmt.Fprintf(b, "| `%s` | %d | %s |\n", d.Code, d.Status, d.Title)
	}
}
