package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/bulk"
)

// openAPI renders the routes as OpenAPI 3.1, and as 3.0 for client generators that know no later
// version. Huma's registry turns Go types into JSON schemas. The rest of huma is not used, because
// its validation reports English sentences instead of drive.Kinds.
func openAPI(routes []route, version string) (v31, v30 []byte) {
	schemas := newSchemas()
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "SmartDrive", Version: version,
			Description: "Sizes are bytes, digests lower-case hex, times RFC 3339 in UTC. Problems are RFC 9457 documents.",
		},
		Paths: map[string]*huma.PathItem{},
		Components: &huma.Components{
			Schemas: schemas.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer"}, "cookie": {Type: "apiKey", In: "cookie", Name: cookieName},
			},
		},
	}
	for i := range routes {
		doc.AddOperation(schemas.operation(&routes[i]))
	}
	schemas.finish()
	v31, err := json.Marshal(doc)
	if err == nil {
		v30, err = downgrade(doc)
	}
	if err != nil { // the table is constant
		panic(fmt.Sprintf("rest: render the OpenAPI document: %v", err))
	}
	return v31, v30
}

// downgrade renders the document as OpenAPI 3.0. It also converts nullable references, which huma
// leaves in the form of 3.1. It fails if the document cannot be encoded.
func downgrade(doc *huma.OpenAPI) ([]byte, error) {
	raw, err := doc.Downgrade()
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	nullable(tree)
	return json.Marshal(tree)
}

// nullable rewrites "anyOf this and null" to the form of OpenAPI 3.0, recursively and in place.
func nullable(node any) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			nullable(item)
		}
	case map[string]any:
		for _, member := range node {
			nullable(member)
		}
		if either, ok := node["anyOf"].([]any); ok && len(either) == 2 {
			if null, ok := either[1].(map[string]any); ok && null["type"] == "null" {
				delete(node, "anyOf")
				node["allOf"], node["nullable"] = either[:1], true
			}
		}
	}
}

// serveDocument sends an OpenAPI document of the version, cacheable for five minutes.
func serveDocument(w http.ResponseWriter, document []byte, version string) {
	w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version="+version)
	w.Header().Set("Content-Length", strconv.Itoa(len(document)))
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(document) // fails only if the client is disconnected
}

// operation returns the OpenAPI description of a route. It registers the schemas of its bodies.
func (s *schemas) operation(rt *route) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: documentPath(rt.path), OperationID: rt.id, Tags: []string{rt.resource()}, Summary: rt.summary,
		Parameters: parameters(rt), RequestBody: s.requestBody(rt), Responses: map[string]*huma.Response{},
	}
	if rt.access != open {
		op.Security = []map[string][]string{{"token": {rt.access.String()}}, {"cookie": {}}}
	}
	for _, o := range rt.outcomes {
		op.Responses[strconv.Itoa(o.status)] = s.response(rt, o)
	}
	for status, kinds := range byStatus(rt.problems()) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: strings.Join(kinds, ", "),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: &huma.Schema{Ref: schemaPrefix + "Problem"}}},
		}
	}
	return op
}

// documentPath returns the path with {path...} written as {path}, as OpenAPI requires.
func documentPath(path string) string { return prefix + strings.ReplaceAll(path, "...}", "}") }

// resource returns the first word of the path, with "admin" the first two.
func (rt *route) resource() string {
	words := strings.Split(strings.TrimPrefix(rt.path, "/"), "/")
	if words[0] == "admin" {
		return "admin " + words[1]
	}
	return words[0]
}

// wildcards returns the names of the wildcards in the path.
func (rt *route) wildcards() []string {
	var names []string
	for segment := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimRight(name, ".}"))
		}
	}
	return names
}

// parameters describes the path wildcards, query parameters and headers of a route.
func parameters(rt *route) []*huma.Param {
	var all []*huma.Param
	for _, name := range rt.wildcards() {
		all = append(all, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: "string"}})
	}
	for i := range rt.query {
		p := &rt.query[i]
		all = append(all, &huma.Param{Name: p.name, In: "query", Required: p.required, Description: p.doc, Schema: p.schema()})
	}
	headers := rt.header
	if rt.idempotent {
		headers = append(slices.Clone(headers), keyHeader)
	}
	for _, name := range headers {
		if name == "Content-Type" || name == "Content-Length" { // OpenAPI describes them with the body
			continue
		}
		all = append(all, &huma.Param{Name: name, In: "header", Schema: &huma.Schema{Type: "string"}})
	}
	return all
}

// schema returns the OpenAPI schema of a query parameter.
func (p *param) schema() *huma.Schema {
	switch p.syntax {
	case integer:
		least, most := float64(p.min), float64(p.max)
		return &huma.Schema{Type: "integer", Format: "int64", Minimum: &least, Maximum: &most, Default: p.def}
	case boolean:
		return &huma.Schema{Type: "boolean", Default: false}
	case choice:
		s := &huma.Schema{Type: "string", Default: p.choices[0]}
		for _, c := range p.choices {
			s.Enum = append(s.Enum, c)
		}
		return s
	case text:
	}
	return &huma.Schema{Type: "string"}
}

// requestBody describes the request body of a route; nil if it has none.
func (s *schemas) requestBody(rt *route) *huma.RequestBody {
	switch {
	case rt.action.raw:
		return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{cmp.Or(rt.action.mediaType, "application/octet-stream"): {Schema: &huma.Schema{}}}}
	case rt.action.body != nil:
		return &huma.RequestBody{
			Required: !rt.bodyOptional,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: s.registry.Schema(rt.action.body, true, "")}},
		}
	}
	return nil
}

// response describes one declared response of a route and registers the schema of its body.
func (s *schemas) response(rt *route, o outcome) *huma.Response {
	r := &huma.Response{Description: o.description}
	switch {
	case o.bytes:
		r.Content = map[string]*huma.MediaType{cmp.Or(o.mediaType, "*/*"): {Schema: &huma.Schema{}}}
	case o.jsonLines:
		r.Content = map[string]*huma.MediaType{ndjson: {Schema: s.registry.Schema(o.body, true, "")}}
	case o.body != nil:
		r.Content = map[string]*huma.MediaType{"application/json": {Schema: s.registry.Schema(o.body, true, "")}}
	}
	for _, media := range o.textTypes {
		r.Content[media] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	}
	if rt.above(o.status) != "" {
		r.Headers = map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: "string"}}}
	}
	return r
}

// problems returns all kinds of errors that the route may answer: its own, and those of the steps
// before its handler.
func (rt *route) problems() []drive.Kind {
	all := append([]drive.Kind{drive.Internal, drive.Unavailable, drive.Stopping, drive.BadRequest}, rt.errors...)
	if rt.method != http.MethodGet && rt.method != http.MethodHead {
		all = append(all, drive.DiskFull) // no transaction commits on a full disk
	}
	if rt.access != open {
		all = append(all, drive.Unauthenticated, drive.Forbidden, drive.Rate)
		if rt.method != http.MethodGet {
			all = append(all, drive.CrossOrigin)
		}
	}
	if rt.action.body != nil {
		all = append(all, drive.TooLarge, drive.MediaType, drive.TooSlow)
	}
	if rt.idempotent {
		all = append(all, drive.InProgress, drive.KeyReused, drive.Gone)
	}
	if rt.senders {
		all = append(all, drive.Gone) // the collect link may be closed
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// byStatus groups the codes of kinds by HTTP status.
func byStatus(kinds []drive.Kind) map[int][]string {
	all := map[int][]string{}
	for _, kind := range kinds {
		all[problem.Status(kind)] = append(all[problem.Status(kind)], kind.String())
	}
	return all
}

// schemaPrefix begins references to schemas within the document.
const schemaPrefix = "#/components/schemas/"

// schemas collects the schemas of the types that the routes use.
type schemas struct{ registry huma.Registry }

// newSchemas returns a registry that has only the schema of problem documents.
func newSchemas() *schemas {
	s := &schemas{huma.NewMapRegistry(schemaPrefix, schemaName)}
	for from, to := range aliases {
		s.registry.RegisterTypeAlias(from, to)
	}
	text, integer := &huma.Schema{Type: "string"}, &huma.Schema{Type: "integer"}
	s.registry.Map()["Problem"] = &huma.Schema{
		Type: "object", Description: "RFC 9457; with the facts of each code as further members", AdditionalProperties: true,
		Properties: map[string]*huma.Schema{
			"type": text, "title": text, "status": integer, "detail": text, "code": text, "request_id": text,
		},
		Required: []string{"type", "title", "status", "detail", "code"},
	}
	return s
}

// aliases maps types to the types that have the same JSON.
var aliases = map[reflect.Type]reflect.Type{
	reflect.TypeFor[drive.Time]():     reflect.TypeFor[time.Time](),
	reflect.TypeFor[drive.ByteSize](): reflect.TypeFor[int64](),
	reflect.TypeFor[digest.Set]():     reflect.TypeFor[map[string]string](),
	reflect.TypeFor[digest.Range]():   reflect.TypeFor[[2]int64](),
	reflect.TypeFor[admin.Total]():    reflect.TypeFor[int64](),

	reflect.TypeFor[optional[string]](): reflect.TypeFor[string](),
	reflect.TypeFor[optional[int64]]():  reflect.TypeFor[int64](),
	reflect.TypeFor[idList]():           reflect.TypeFor[[]drive.NodeID](),
}

// schemaName returns the name of a type's schema in the document.
func schemaName(t reflect.Type, hint string) string {
	if t == reflect.TypeFor[bulk.Operation]() { // files.Operation has the plain name
		return "BulkOperation"
	}
	if t == reflect.TypeFor[TimerView]() { // the name that clients use
		return "Timer"
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if strings.HasSuffix(t.PkgPath(), "/internal/move/migrate") && !strings.HasPrefix(name, "Migration") {
		name = "Migration" + name // its names are too general: Status, Progress
	}
	return name
}

// finish corrects what the registry cannot know: lists are never null, pointers are nullable even
// if an alias hides them, and objects in responses may have more members.
func (s *schemas) finish() {
	for name, schema := range s.registry.Map() {
		for _, p := range schema.Properties {
			if p.Type == "array" {
				p.Nullable = false
				p.Items.Nullable = false
			}
		}
		t := s.registry.TypeFromRef(schemaPrefix + name)
		if t == nil {
			continue
		}
		if !strings.HasSuffix(name, "Body") {
			schema.AdditionalProperties = nil
		}
		for _, f := range reflect.VisibleFields(t) {
			member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			p := schema.Properties[member]
			if p == nil {
				continue
			}
			if f.Type.Kind() == reflect.Pointer && options == "" {
				p = orNull(p)
				schema.Properties[member] = p
			}
			if p.Description == "" {
				p.Description = meanings[member]
			}
		}
	}
}

// orNull makes a schema nullable. A reference needs anyOf for that.
func orNull(p *huma.Schema) *huma.Schema {
	if p.Ref == "" {
		p.Nullable = true
		return p
	}
	return &huma.Schema{AnyOf: []*huma.Schema{p, {Type: "null"}}, Description: p.Description}
}
