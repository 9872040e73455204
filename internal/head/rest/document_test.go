package rest

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
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
		if n, err := strconv.Atoi(status); status != "default" && (err != nil || n < 200 || n > 599) || r.(object)["description"] == "" {
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

// TestDocumentMarksNullableMembers pins the points where the types alone would mislead.
func TestDocumentMarksNullableMembers(t *testing.T) {
	t.Parallel()
	schemas := document(t)["components"].(object)["schemas"].(object)
	property := func(path string) any {
		schema, name, _ := strings.Cut(path, ".")
		return schemas[schema].(object)["properties"].(object)[name].(object)["type"]
	}
	nullable := func(typ string) string { return fmt.Sprint([]any{typ, "null"}) }
	for path, want := range map[string]string{
		"Upload.size": nullable("integer"), "Node.trashed_at": nullable("string"), "Node.parent_id": nullable("string"),
		"CreateUploadRequest.size": nullable("integer"), "CreateUploadRequest.part_size": "integer", "CreateUserRequest.total": nullable("integer"),
		"NodePage.next_cursor": nullable("string"), "NodePage.items": "array", "Usage.total": nullable("integer"),
		"Node.mtime": "string", "Upload.reserved": "integer", "Part.cv": nullable("string"),
	} {
		if got := fmt.Sprint(property(path)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := fmt.Sprint(schemas["CreateUploadRequest"].(object)["required"]); got != "[size]" {
		t.Errorf("begin needs %s", got)
	}
}

// TestOperationIDsAreVerbAndNoun keeps the method names of generated clients readable.
func TestOperationIDsAreVerbAndNoun(t *testing.T) {
	t.Parallel()
	verbs := strings.Fields("accept add advance cancel change check complete confirm copy create delete download drop empty end explain " +
		"export finish get grant link list mark open pause prepare prove remove replay reset restore resume retry roll rotate run search set " +
		"settle star start stream sum undo unlink unstar update upload verify")
	shape := regexp.MustCompile(`^([a-z]+)([A-Z][a-z]*)+$`)
	seen := map[string]string{}
	for _, rt := range New(Options{}).routes {
		if named := shape.FindStringSubmatch(rt.id); named == nil || !slices.Contains(verbs, named[1]) {
			t.Errorf("%s has the operationId %q, which is no verb and noun in camelCase", rt.pattern(), rt.id)
		}
		if other, taken := seen[rt.id]; taken {
			t.Errorf("%s and %s have the operationId %s", rt.pattern(), other, rt.id)
		}
		seen[rt.id] = rt.pattern()
	}
}

// TestTheDocumentDescribesEverything keeps the pages that client generators make of it readable.
func TestTheDocumentDescribesEverything(t *testing.T) {
	t.Parallel()
	doc := document(t)
	described := func(where string, of any) {
		if about, _ := of.(object)["description"].(string); about == "" {
			t.Errorf("%s has no description", where)
		}
	}
	for name, s := range doc["components"].(object)["schemas"].(object) {
		described(name, s)
		properties, _ := s.(object)["properties"].(object)
		for member, p := range properties {
			if p.(object)["$ref"] != schemaPrefix+"ProblemCode" {
				described(name+"."+member, p)
			}
		}
	}
	for _, item := range doc["paths"].(object) {
		for _, op := range item.(object) {
			op := op.(object)
			params, _ := op["parameters"].([]any)
			for _, p := range params {
				described(fmt.Sprint(op["operationId"], " ", p.(object)["name"]), p)
			}
		}
	}
	for _, tag := range doc["tags"].([]any) {
		described(fmt.Sprint("tag ", tag.(object)["name"]), tag)
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

This page is generated from the table of routes in ` + "`internal/head/rest`" + `:
` + "`go test ./internal/head/rest -run Reference -update`" + `. The same table is served as OpenAPI 3.1 at ` + "`/api/openapi.json`" + `
and as 3.0 at ` + "`/api/openapi-3.0.json`" + `. All addresses are under ` + "`/api/v1`" + `.

**Formats.** JSON in UTF-8, at most 1 MiB. Unknown, repeated and wrongly typed members are refused, and so are such
query parameters; ` + "`null`" + ` is a value only where it says so. Ids are UUIDv7, sizes bytes, digests lower-case hex, times
RFC 3339 in UTC with milliseconds. Paths in JSON are absolute; in an address each name is percent-encoded by itself. An
ETag of content is ` + "`\"b3-<hex>\"`" + `.

**Reading this page.** ` + "`*`" + ` marks a member that a request must have and an answer always has. A member, parameter or
answer without a description is explained under [Common names](#common-names), if its name does not say enough. A page is
` + "`{items, next_cursor}`" + `; *paged* marks addresses with the parameters ` + "`limit`" + ` and ` + "`cursor`" + ` and the error 400
` + "`cursor-invalid`" + `. Where an address has a name in braces, the answer may be 404 ` + "`not-found`" + `.

**Token.** ` + "`Authorization: Bearer TOKEN`" + `, from ` + "`POST /sessions`" + ` or ` + "`POST /tokens`" + `. The scope that an address needs
follows its text in parentheses (*read*, *write*, *admin*); *admin* also needs an administrator. *sender* marks addresses
that a collect link's sender may use for their own uploads. Senders and visitors of a share have tokens of their own: see
[sharing](sharing.md). What does not exist, what belongs to somebody else and an id that cannot be one are the same 404.

**Limits.** 32 requests of a user at a time; 100 POSTs of one kind a second, 200 at once; PATCHes of uploads likewise.

**Idempotency.** Where *Idempotency-Key* stands, a key of 1 to 255 printable ASCII characters makes the creation happen
once: for 24 hours a repeat gets the first answer with ` + "`Idempotent-Replayed: true`" + `, and the same key with another path
or body is 422. The id from ` + "`POST /prepare`" + ` works as a key.

**HEAD** works wherever GET does, without ranges.

**Problems.** Each address lists the errors of its own; [Problems](#problems) lists those that every address may answer.

**Generated clients.** Methods are named by the ` + "`operationId`" + ` of each operation, such as ` + "`uploadPart`" + `. Every operation
has a ` + "`default`" + ` answer: a problem whose ` + "`code`" + ` is one of [Problems](#problems). ` + "`make deep PARTS=clients`" + ` says which
generators are tried.

## With curl

` + curlExamples + `
## Versions and deprecation

` + "`info.version`" + ` of the document follows Semantic Versioning. Within a major version a client may rely on this:

- Addresses, operation ids, members, parameters and problem codes keep their names, types and meanings.
- An answer may get further members, a list of values further values, an operation further optional parameters and
  members of its body. A client ignores members that it does not know, and treats an unknown value as none of the known.
- What is to be removed is first marked ` + "`deprecated`" + ` in the document, and the changelog names what replaces it. It works
  on for at least two minor releases and six months.
- Only a new major version removes or changes something. It has an address of its own, ` + "`/api/v2`" + `, and the former one is
  served beside it for at least twelve months.

Version 0 promises less: a minor release may change the API, as its changelog says. The address stays ` + "`/api/v1`" + `.
`

// curlExamples are requests that TestCurlExamplesNameRoutes compares with the table.
const curlExamples = "```console\n" + `$ URL=https://drive.example.org/api/v1
$ TOKEN=$(curl -s -X POST $URL/sessions -H 'Content-Type: application/json' -d '{"name":"ann","password":"..."}' | jq -r .token)
$ AUTH="Authorization: Bearer $TOKEN"
$ curl -H "$AUTH" -X POST $URL/nodes -H 'Content-Type: application/json' -d '{"type":"folder","path":"/reports"}'
$ curl -H "$AUTH" -X PUT $URL/files/reports/may.pdf -T may.pdf
$ curl -H "$AUTH" -X GET $URL/nodes/root/children
$ curl -H "$AUTH" -X POST $URL/shares -H 'Content-Type: application/json' -d '{"node":"ID","expires_in":86400}'
$ curl -H "$AUTH" -X GET $URL/nodes/ID/content -o may.pdf
$ curl -H "$AUTH" -X DELETE $URL/nodes/ID
` + "```\n"

// TestCurlExamplesNameRoutes compares the method, the path and the members of each example with the
// document.
func TestCurlExamplesNameRoutes(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	routes := New(Options{}).routes
	bodies := map[string]reflect.Type{}
	for i := range routes {
		mux.HandleFunc(routes[i].pattern(), func(http.ResponseWriter, *http.Request) {})
		bodies[routes[i].pattern()] = routes[i].action.body
	}
	names := newSchemas(routes)
	schemas := document(t)["components"].(object)["schemas"].(object)
	n := 0
	for _, m := range regexp.MustCompile(`-X ([A-Z]+) \$URL(\S+)(?:.* -d '([^']*)')?`).FindAllStringSubmatch(curlExamples, -1) {
		n++
		r, err := http.NewRequest(m[1], prefix+m[2], nil)
		if err != nil {
			t.Fatal(err)
		}
		_, pattern := mux.Handler(r)
		body, known := bodies[pattern]
		if !known {
			t.Errorf("%s %s is no route", m[1], m[2])
		}
		if m[3] == "" {
			continue
		}
		var sent object
		if err := json.Unmarshal([]byte(m[3]), &sent); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
		s := schemas[names.name(body, "")].(object)
		for member := range sent {
			if s["properties"].(object)[member] == nil {
				t.Errorf("%s has no member %s", pattern, member)
			}
		}
		for member := range required(s) {
			if sent[member] == nil {
				t.Errorf("%s lacks the member %s", m[0], member)
			}
		}
	}
	if n < 7 {
		t.Errorf("only %d examples were compared", n)
	}
}

// reference renders docs/api.md. A text that several places share is printed once.
type reference struct {
	strings.Builder
	schemas object
	name    func(t reflect.Type, hint string) string // name of a type's schema
	shared  map[string]bool                          // bodies that more than one route takes
	params  map[string]string                        // by name: a description that several parameters share
	common  map[string]string                        // the same of members
	answers map[string]string                        // the same of answers, by status
}

// markdown renders the reference.
func markdown(routes []route, doc object) string {
	r := &reference{name: newSchemas(routes).name, schemas: doc["components"].(object)["schemas"].(object), shared: map[string]bool{}, params: map[string]string{}, common: map[string]string{}, answers: map[string]string{}}
	r.count(routes)
	r.WriteString(preface)
	last := ""
	for i := range routes {
		rt := &routes[i]
		if rt.resource() != last {
			last = rt.resource()
			fmt.Fprintf(r, "\n## %s%s\n", strings.ToUpper(last[:1]), last[1:])
		}
		r.route(rt)
	}
	r.WriteString("\n## Objects\n")
	for _, name := range slices.Sorted(maps.Keys(r.schemas)) {
		if r.isObject(name) || r.shared[name] {
			fmt.Fprintf(r, "\n### %s\n\n", name)
			r.members(name)
		}
	}
	r.commonNames()
	writeProblems(&r.Builder)
	return r.String()
}

// isObject reports whether the schema is listed under "Objects" wherever it is used.
func (r *reference) isObject(name string) bool {
	properties, _ := r.schemas[name].(object)["properties"].(object)
	return properties != nil && !strings.HasSuffix(name, "Request") && !r.isPage(name) && name != "Problem"
}

// isPage reports whether the schema has only the members that every page has.
func (r *reference) isPage(name string) bool {
	properties, _ := r.schemas[name].(object)["properties"].(object)
	return strings.HasSuffix(name, "Page") && len(properties) == 2
}

// count finds the bodies and the descriptions that stand in several places.
func (r *reference) count(routes []route) {
	bodies, params, members := map[string]int{}, map[string]map[string]int{}, map[string]map[string]int{}
	answers := map[string]map[string]int{}
	add := func(places map[string]map[string]int, name, line string) {
		if places[name] == nil {
			places[name] = map[string]int{}
		}
		places[name][line]++
	}
	for i := range routes {
		for j := range routes[i].query {
			p := &routes[i].query[j]
			add(params, p.name, p.line())
		}
		for _, o := range routes[i].outcomes {
			if o.status > http.StatusNoContent { // the others differ with each route
				add(answers, strconv.Itoa(o.status), o.description+r.bodyWords(o))
			}
		}
		if name := r.body(&routes[i]); name != "" {
			bodies[name]++
			r.shared[name] = bodies[name] > 1
		}
	}
	for name, s := range r.schemas {
		if bodies[name] == 0 && !r.isObject(name) {
			continue
		}
		for member, p := range s.(object)["properties"].(object) {
			about, _ := p.(object)["description"].(string)
			add(members, member, about)
		}
	}
	frequent(params, r.params)
	frequent(members, r.common)
	frequent(answers, r.answers)
}

// frequent stores by name the line that most places share, if two or more do. It stores none for a
// name that has an empty line somewhere, which the stored one would seem to describe.
func frequent(places map[string]map[string]int, into map[string]string) {
	for name, lines := range places {
		most := 1
		for _, line := range slices.Sorted(maps.Keys(lines)) {
			if lines[line] > most && lines[""] == 0 {
				into[name], most = line, lines[line]
			}
		}
	}
}

// line describes the parameter under "Common names".
func (p *param) line() string { return p.words() + ": " + p.doc }

// body returns the name of the schema of a route's JSON body, "" without one.
func (r *reference) body(rt *route) string {
	if rt.action.body == nil || rt.action.raw || rt.action.body.Kind() == reflect.Map {
		return ""
	}
	return r.name(rt.action.body, "")
}

// about returns a description with the colon before it; "" if "Common names" has it.
func (r *reference) about(name, about string) string {
	if about == "" || r.common[name] == about {
		return ""
	}
	return ": " + about
}

func (r *reference) commonNames() {
	r.WriteString("\n## Common names\n")
	for _, of := range []struct {
		title string
		lines map[string]string
	}{{"Parameters", r.params}, {"Members", r.common}, {"Answers", r.answers}} {
		fmt.Fprintf(r, "\n%s:\n\n", of.title)
		for _, name := range slices.Sorted(maps.Keys(of.lines)) {
			r.WriteString(wrap("- `" + name + "`: " + of.lines[name]))
		}
	}
}

func (r *reference) route(rt *route) {
	need := "no token"
	if rt.access != open {
		need = "*" + rt.access.String() + "*"
	}
	if rt.senders {
		need += " or *sender*"
	}
	if rt.idempotent {
		need += ", *Idempotency-Key*"
	}
	paged := rt.paged()
	if paged {
		need += ", *paged*"
	}
	fmt.Fprintf(r, "\n### %s %s\n\n%s", rt.method, rt.path, wrap(rt.summary+" ("+need+")"))
	var takes []string
	for i := range rt.query {
		p := &rt.query[i]
		if paged && (p.name == "limit" || p.name == "cursor") {
			continue
		}
		if r.params[p.name] == p.line() {
			takes = append(takes, "`"+p.name+"`")
		} else {
			takes = append(takes, "`"+p.name+"` "+p.line())
		}
	}
	r.list("Parameters", takes)
	if len(rt.header) > 0 {
		fmt.Fprintf(r, "\n%s", wrap("Headers: "+strings.Join(rt.header, ", ")+"."))
	}
	lists := len(takes) > 0 && len(rt.header) == 0 // what comes last is a list
	switch name := r.body(rt); {
	case rt.action.raw:
		lists = false
		r.WriteString("\nThe body is the bytes.\n")
	case r.shared[name]:
		lists = false
		fmt.Fprintf(r, "\nBody: %s.\n", link(name))
	case name != "":
		lists = true
		r.WriteString("\nBody:\n\n")
		r.members(name)
	case rt.action.body != nil:
		lists = false
		r.WriteString("\nThe body is a JSON object.\n")
	}
	if lists {
		r.WriteString("\nAnswers:\n")
	}
	r.WriteString("\n")
	for _, o := range rt.outcomes {
		text := o.description + r.bodyWords(o)
		if text == r.answers[strconv.Itoa(o.status)] {
			text = ""
		}
		r.WriteString(wrap(fmt.Sprintf("- **%d** %s", o.status, text)))
	}
	ofItsOwn := slices.DeleteFunc(slices.Clone(rt.errors), func(kind drive.Kind) bool { // the preface has the others
		return paged && kind == drive.CursorInvalid || kind == drive.NotFound && strings.Contains(rt.path, "{")
	})
	if problems := problemWords(ofItsOwn); problems != "" {
		r.WriteString(wrap("- " + problems))
	}
}

// paged reports whether the route has the parameters and the error that the preface explains under
// "Pages".
func (rt *route) paged() bool {
	named := func(name string) bool {
		return slices.ContainsFunc(rt.query, func(p param) bool { return p.name == name })
	}
	return named("limit") && named("cursor") && slices.Contains(rt.errors, drive.CursorInvalid)
}

// list writes a title and the items below it, unless there are none.
func (r *reference) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(r, "\n%s:\n\n", title)
	r.items(items)
}

// items writes those without a description in one line, and each of the others in a line.
func (r *reference) items(items []string) {
	var short, long []string
	for _, item := range items {
		if strings.Contains(item, ": ") {
			long = append(long, item)
		} else {
			short = append(short, item)
		}
	}
	if len(short) > 0 {
		r.WriteString(wrap("- " + strings.Join(short, ", ")))
	}
	for _, item := range long {
		r.WriteString(wrap("- " + item))
	}
}

// unbroken matches what a line is not broken in: words and code spans.
var unbroken = regexp.MustCompile("(?:`[^`]*`|[^\\s`])+")

// wrap breaks a line after at most 120 characters; what follows in an item of a list is indented.
func wrap(line string) string {
	const width = 120
	var b strings.Builder
	at, indent := 0, ""
	if strings.HasPrefix(line, "- ") {
		indent = "  "
	}
	for i, word := range unbroken.FindAllString(line, -1) {
		switch n := len([]rune(word)); {
		case i > 0 && at+1+n > width && !strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "+"): // these begin an item
			b.WriteString("\n" + indent + word)
			at = len(indent) + n
		case i > 0:
			b.WriteString(" " + word)
			at += 1 + n
		default:
			b.WriteString(word)
			at = n
		}
	}
	return b.String() + "\n"
}

func (p *param) words() string {
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

func (r *reference) bodyWords(o outcome) string {
	if o.body == nil {
		return ""
	}
	if o.body.Kind() == reflect.Map {
		return ": a JSON object"
	}
	name := r.name(o.body, "")
	if r.isPage(name) {
		items := r.schemas[name].(object)["properties"].(object)["items"].(object)
		return ": " + strings.TrimPrefix(r.typeWords(items), "list of ")
	}
	return ": " + link(name)
}

func link(name string) string { return "[" + name + "](#" + strings.ToLower(name) + ")" }

func problemWords(kinds []drive.Kind) string {
	var all []string
	groups := byStatus(kinds)
	for _, status := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, fmt.Sprintf("%d `%s`", status, strings.Join(groups[status], "`, `")))
	}
	return strings.Join(all, "; ")
}

// members lists the members of a schema: those of the largest schema that it extends by a link.
func (r *reference) members(name string) {
	s := r.schemas[name].(object)
	properties, required := s["properties"].(object), required(s)
	base := r.extends(name)
	if base != "" {
		fmt.Fprintf(r, "- the members of %s\n", link(base))
	}
	var items []string
	for _, member := range slices.Sorted(maps.Keys(properties)) {
		if base != "" && r.schemas[base].(object)["properties"].(object)[member] != nil {
			continue
		}
		p := properties[member].(object)
		item := "`" + member + "`"
		if required[member] {
			item += "*"
		}
		item += " " + r.typeWords(p)
		if def, ok := p["default"]; ok {
			item += fmt.Sprintf(" (default `%v`)", def)
		}
		about, _ := p["description"].(string)
		items = append(items, item+r.about(member, about))
	}
	r.items(items)
}

func required(s object) map[string]bool {
	all, _ := s["required"].([]any)
	names := map[string]bool{}
	for _, name := range all {
		names[name.(string)] = true
	}
	return names
}

// extends returns the largest object whose members, six or more, are all members of the schema, ""
// if there is none.
func (r *reference) extends(name string) string {
	const least = 6
	s := r.schemas[name].(object)
	properties, needed, best, most := s["properties"].(object), required(s), "", least-1
	for _, other := range slices.Sorted(maps.Keys(r.schemas)) {
		o := r.schemas[other].(object)
		members, _ := o["properties"].(object)
		also := required(o)
		if !r.isObject(other) || len(members) <= most || len(members) >= len(properties) {
			continue
		}
		same := true
		for member, p := range members {
			same = same && reflect.DeepEqual(properties[member], p) && needed[member] == also[member]
		}
		if same {
			best, most = other, len(members)
		}
	}
	return best
}

func (r *reference) typeWords(p object) string {
	if ref, ok := p["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, schemaPrefix)
		if s := r.schemas[name].(object); s["enum"] != nil {
			return r.typeWords(s)
		}
		return link(name)
	}
	if either, ok := p["anyOf"].([]any); ok {
		return r.typeWords(either[0].(object)) + " or null"
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
		return "list of " + r.typeWords(items)
	}
	return words
}

func writeProblems(b *strings.Builder) {
	b.WriteString("\n## Problems\n\nRFC 9457 documents `{type, title, status, detail, code, request_id, ...}` in English or Chinese (Accept-Language). Every\n" +
		"address may also answer 400 `bad-request`, 401 `unauthenticated`, 403 `forbidden`, 413 `too-large`, 415 `media-type`,\n" +
		"429 `rate`, 500 `internal` and 503 `stopping` or `unavailable`. `/problems/CODE` tells what to do about each.\n\n| Code | Status | |\n|---|---|---|\n")
	for _, kind := range drive.Kinds() {
		d := problem.From(drive.Fail(kind), problem.English, "")
		fmt.Fprintf(b, "| `%s` | %d | %s |\n", d.Code, d.Status, d.Title)
	}
}
