package rest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/usecase/webhook"
)

// apiVersion is the version of the API by Semantic Versioning. docs/api.md says what each part of
// it promises.
const apiVersion = "0.1.0"

// openAPI renders the routes as OpenAPI 3.1, and as 3.0 for client generators that know no later
// version. Huma's registry turns Go types into JSON schemas. The rest of huma is not used, because
// its validation reports English sentences instead of drive.Kinds.
func openAPI(routes []route, base, version string) (v31, v30 []byte) {
	schemas := newSchemas(routes)
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "SmartDrive", Version: apiVersion,
			Description: "Sizes are bytes, digests lower-case hex, times RFC 3339 in UTC. Problems are RFC 9457 documents. Served by SmartDrive " + version + ".",
			Contact:     &huma.Contact{Name: "The administrators of this server"},
			License:     &huma.License{Name: "Apache-2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		Servers:  []*huma.Server{{URL: cmp.Or(base, "/"), Description: "this server"}},
		Security: []map[string][]string{{"bearerAuth": {}}, {"cookieAuth": {}}},
		Paths:    map[string]*huma.PathItem{},
		Webhooks: map[string]*huma.PathItem{"event": {Post: schemas.delivery()}},
		Components: &huma.Components{
			Schemas: schemas.registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearerAuth": {Type: "http", Scheme: "bearer", Description: "a token of POST /sessions or POST /tokens"},
				"cookieAuth": {Type: "apiKey", In: "cookie", Name: cookieName, Description: "the cookie that POST /sessions sets with `cookie`"},
			},
		},
	}
	tags := map[string]bool{}
	for i := range routes {
		doc.AddOperation(schemas.operation(&routes[i]))
		tags[routes[i].resource()] = true
	}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: name, Description: tagMeanings[name]})
	}
	schemas.finish(routes)
	v31, err := json.Marshal(doc)
	if err == nil {
		v30, err = downgrade(doc)
	}
	if err != nil { // the table is constant
		panic(fmt.Sprintf("rest: render the OpenAPI document: %v", err))
	}
	return v31, v30
}

// downgrade renders the document as OpenAPI 3.0, which has no webhooks. It also converts
// references, which huma leaves in the form of 3.1. It fails if the document cannot be encoded.
func downgrade(doc *huma.OpenAPI) ([]byte, error) {
	older := *doc
	older.Webhooks = nil
	raw, err := older.Downgrade()
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}
	references(tree, doc.Components.Schemas.Map())
	if raw, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	all := tree.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	for name := range all { // such as a line of JSON lines
		if !bytes.Contains(raw, []byte(`"`+schemaPrefix+name+`"`)) {
			delete(all, name)
		}
	}
	return json.Marshal(tree)
}

// references rewrites references to the schemas to the form of OpenAPI 3.0, recursively and in
// place: one beside other members stands alone, and "anyOf this and null" is nullable.
func references(node any, schemas map[string]*huma.Schema) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			references(item, schemas)
		}
	case map[string]any:
		for _, member := range node {
			references(member, schemas)
		}
		delete(node, "x-contentMediaType")
		if node[ndjson] != nil { // generators for 3.0 would take all lines for one object
			node[ndjson] = map[string]any{"schema": map[string]any{"type": "string", "format": "binary"}}
		}
		if ref, ok := node["$ref"].(string); ok { // 3.0 ignores what stands beside a reference
			clear(node)
			node["$ref"] = ref
		}
		if either, ok := node["anyOf"].([]any); ok && len(either) == 2 {
			if null, ok := either[1].(map[string]any); ok && null["type"] == "null" {
				delete(node, "anyOf")
				node["allOf"], node["nullable"] = either[:1], true
				ref, _ := either[0].(map[string]any)["$ref"].(string)
				if of := schemas[strings.TrimPrefix(ref, schemaPrefix)]; of != nil {
					node["type"] = of.Type // nullable has no effect without a type
				}
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
	first, _, _ := strings.Cut(rt.summary, ". ")
	op := &huma.Operation{
		Method: rt.method, Path: documentPath(rt.path), OperationID: rt.id, Tags: []string{rt.resource()},
		Summary: strings.TrimSuffix(first, "."), Description: rt.summary,
		Parameters: parameters(rt), RequestBody: s.requestBody(rt), Responses: map[string]*huma.Response{},
	}
	if rt.access == open {
		op.Security = []map[string][]string{}
	} else {
		op.Description += " Needs the scope " + rt.access.String() + "."
	}
	for _, o := range rt.outcomes {
		op.Responses[strconv.Itoa(o.status)] = s.response(rt, o)
	}
	for status, kinds := range byStatus(rt.problems()) {
		op.Responses[strconv.Itoa(status)] = problemResponse(strings.Join(kinds, ", "))
	}
	op.Responses["default"] = problemResponse("any other problem")
	return op
}

// problemResponse describes a response that is a problem document.
func problemResponse(description string) *huma.Response {
	return &huma.Response{
		Description: description,
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: &huma.Schema{Ref: schemaPrefix + "Problem"}}},
	}
}

// delivery describes the request that the server sends to the address of a webhook.
func (s *schemas) delivery() *huma.Operation {
	header := func(name, about string) *huma.Param {
		return &huma.Param{Name: name, In: "header", Required: true, Description: about, Schema: &huma.Schema{Type: "string"}}
	}
	return &huma.Operation{
		OperationID: "receiveEvent", Tags: []string{"webhooks"}, Summary: "Receive an event",
		Description: "Sent to the address of a webhook, in order and at least once. The signature follows Standard Webhooks 1.0.",
		Security:    []map[string][]string{},
		Parameters: []*huma.Param{
			header("webhook-id", "id of the event; the same in each attempt"),
			header("webhook-timestamp", "time of the attempt, in seconds since 1970"),
			header("webhook-signature", "signatures of the body, each `v1,` and base64, separated by a space"),
		},
		RequestBody: &huma.RequestBody{
			Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: s.registry.Schema(reflect.TypeFor[webhook.Event](), true, "")}},
		},
		Responses: map[string]*huma.Response{
			"2XX": {Description: "received"},
			"410": {Description: "disables the webhook"},
			"4XX": {Description: "refused; after five attempts the event is skipped"},
		},
	}
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
		all = append(all, &huma.Param{Name: name, In: "path", Required: true, Description: wildcardMeanings[name], Schema: &huma.Schema{Type: "string"}})
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
		switch name {
		case "Content-Type", "Content-Length", "Accept", "Authorization": // OpenAPI describes them with bodies and security
			continue
		}
		all = append(all, &huma.Param{Name: name, In: "header", Description: headerMeanings[name], Schema: &huma.Schema{Type: "string"}})
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
		if p.name == "conflict" { // named, because ogen names it like the answer 409 otherwise
			return &huma.Schema{Ref: schemaPrefix + "ConflictPolicy", Default: p.choices[0]}
		}
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
		return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{cmp.Or(rt.action.mediaType, octets): {Schema: rawBody(rt.action.mediaType)}}}
	case rt.action.body != nil:
		return &huma.RequestBody{
			Required: !rt.bodyOptional,
			Content:  map[string]*huma.MediaType{"application/json": {Schema: s.registry.Schema(rt.action.body, true, "")}},
		}
	}
	return nil
}

// octets is the media type of bytes in the document. A download has the media type of its file.
const octets = "application/octet-stream"

// rawBody returns the schema of a body that is not JSON, by its media type; "" is that of bytes.
func rawBody(mediaType string) *huma.Schema {
	switch {
	case strings.HasPrefix(mediaType, "text/"):
		return &huma.Schema{Type: "string"}
	case mediaType == "application/x-www-form-urlencoded":
		token := &huma.Schema{Type: "string", Description: "logout token of the provider (OpenID Connect Back-Channel Logout 1.0)"}
		return &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{"logout_token": token}, Required: []string{"logout_token"}}
	}
	return &huma.Schema{Type: "string", Format: "binary"}
}

// response describes one declared response of a route and registers the schema of its body.
func (s *schemas) response(rt *route, o outcome) *huma.Response {
	r := &huma.Response{Description: o.description}
	switch {
	case o.bytes:
		r.Content = map[string]*huma.MediaType{cmp.Or(o.mediaType, octets): {Schema: rawBody(o.mediaType)}}
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
