package rest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"example.org/smartdrive/api"
	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/admin"
)

// schemaPrefix begins references to schemas within the document.
const schemaPrefix = "#/components/schemas/"

// schemas collects the schemas of the types that the routes use.
type schemas struct {
	registry huma.Registry
	requests map[reflect.Type]string // names of the request bodies, after their operations
}

// newSchemas returns a registry that has only the schemas of problem documents. Request bodies are
// named after the first route that takes them.
func newSchemas(routes []route) *schemas {
	s := &schemas{requests: map[reflect.Type]string{}}
	for i := range routes {
		body := routes[i].action.body
		if _, named := s.requests[body]; body != nil && body.Kind() == reflect.Struct && !named {
			s.requests[body] = upperFirst(routes[i].id) + "Request"
		}
	}
	s.registry = huma.NewMapRegistry(schemaPrefix, s.name)
	for from, to := range aliases {
		s.registry.RegisterTypeAlias(from, to)
	}
	s.addProblem()
	return s
}

// addProblem adds the schemas of problem documents and of their codes.
func (s *schemas) addProblem() {
	text := func(about string) *huma.Schema { return &huma.Schema{Type: "string", Description: about} }
	number := func(about string) *huma.Schema {
		return &huma.Schema{Type: "integer", Format: "int64", Description: about}
	}
	codes := &huma.Schema{Type: "string", Description: "Code of a problem. Codes never change their meaning; a later version may add some."}
	for _, kind := range drive.Kinds() {
		codes.Enum = append(codes.Enum, kind.String())
	}
	all := s.registry.Map()
	all["ProblemCode"] = codes
	all["Problem"] = &huma.Schema{
		Type: "object", Description: "Problem document (RFC 9457). A code may add further members.", AdditionalProperties: true,
		Properties: map[string]*huma.Schema{
			"type":        text("path of the page about the code"),
			"title":       text("what the code means, in the language of Accept-Language"),
			"status":      number("HTTP status"),
			"detail":      text("what happened this time, in the language of Accept-Language"),
			"code":        {Ref: schemaPrefix + "ProblemCode"},
			"request_id":  text("id of the request in the server's log"),
			"field":       text("member, parameter or header that the server refuses"),
			"reason":      text("more exact reason within the code"),
			"expected":    text("description of the values that are valid"),
			"allowed":     {Description: "the values that are valid, or words about them"},
			"min":         {Description: "smallest valid value"},
			"max":         {Description: "largest valid value"},
			"sent":        {Description: "the value that the server refuses, shortened"},
			"limit":       {Description: "the limit that the request exceeds"},
			"needed":      {Description: "bytes that the request needs"},
			"available":   {Description: "bytes that are available"},
			"state":       {Description: "state of the resource that does not allow the request"},
			"current":     {Description: "current revision or version, to compare with the one sent"},
			"retry_after": number("seconds until a retry may succeed"),
		},
		Required: []string{"type", "title", "status", "detail", "code"},
	}
}

// aliases maps types to the types that have the same JSON.
var aliases = map[reflect.Type]reflect.Type{
	reflect.TypeFor[api.Time]():       reflect.TypeFor[time.Time](),
	reflect.TypeFor[drive.Time]():     reflect.TypeFor[time.Time](),
	reflect.TypeFor[drive.ByteSize](): reflect.TypeFor[int64](),
	reflect.TypeFor[digest.Set]():     reflect.TypeFor[map[string]string](),
	reflect.TypeFor[digest.Range]():   reflect.TypeFor[[2]int64](),
	reflect.TypeFor[admin.Total]():    reflect.TypeFor[int64](),

	reflect.TypeFor[optional[string]](): reflect.TypeFor[string](),
	reflect.TypeFor[optional[int64]]():  reflect.TypeFor[int64](),
	reflect.TypeFor[idList]():           reflect.TypeFor[[]drive.NodeID](),
}

// schemaNames are the names of schemas whose Go name is too general or differs from the words of
// the API.
var schemaNames = map[string]string{
	"AboveRole": "InheritedGrant", "AccessView": "ShareAccess", "CollectView": "CollectLink",
	"CollectedView": "CollectedFile", "Conflict": "KeyConflict", "ConnectedView": "SignOnConnection", "Day": "GrowthDay",
	"DeletedView": "DeletedResource", "Dispute": "DocumentConflict", "DueCounts": "DueTimers", "Entry": "ActivityEntry",
	"Everything": "OperationSelection", "Failure": "ExportFailure", "FailureView": "OperationFailure", "Filter": "ExportFilter",
	"Finding": "AuditFinding", "FlowView": "AppFlow", "GrantView": "CreatedToken", "Job": "ExportJob", "Lag": "ConsumerLag",
	"LetterView": "DeadLetter", "LoginView": "CreatedSession", "MeAccount": "CurrentAccount", "MeUsage": "Usage", "MeUser": "CurrentUser",
	"MeView": "CurrentUserDetails", "MemberView": "GroupMember", "PersonView": "Principal", "PreparedView": "PreparedKey",
	"ProviderView": "SignOnProvider", "PublicCollectView": "PublicCollectLink", "ReplayView": "ReplayResult", "ResetView": "ResetResult",
	"RoleView": "Grant", "Rules": "SourceRules", "Schedule": "ExportSchedule", "Selection": "DocumentSelection", "SenderView": "SenderToken",
	"SettledView": "SettleResult", "SharedByName": "NamedShare", "SignOnBegun": "StartedSignOn", "Skipped": "SkippedExport",
	"Stray": "StrayFile", "Supplied": "SupplementItem", "Total": "DocumentTotal", "TotalsView": "FolderTotals", "UnreadView": "UnreadCount",
	"Unsent": "UnsentRecords", "View": "Export", "WhoView": "NodeAccess",

	"MigrationOld": "MigrationSource",

	"api.Access": "NodeAccess", "api.AccessGrant": "InheritedGrant", "api.AdminUpload": "OwnedUpload", "api.Collect": "CollectLink",
	"api.LinkTarget": "SharedNode", "api.Me": "CurrentUserDetails", "api.Member": "GroupMember", "api.PreparedID": "PreparedKey",
	"api.SealProgress": "Progress",

	// Bodies of several operations.
	"rest.MigrationBody": "MigrationStepRequest", "rest.groupBody": "GroupRequest", "rest.passwordOnly": "PasswordRequest",

	"bulk.Operation": "Operation", "files.Operation": "SubtreeOperation", "webhook.Event": "WebhookEvent",
	"webhook.EventData": "WebhookEventData",
}

// name returns the name of a type's schema in the document.
func (s *schemas) name(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := schemaNames[t.String()]; ok {
		return name
	}
	if name, ok := s.requests[t]; ok {
		return name
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if item, ok := strings.CutPrefix(name, "Page"); ok && strings.Contains(t.Name(), "[") {
		return publicName(item) + "Page"
	}
	if strings.HasSuffix(t.PkgPath(), "/internal/move/migrate") && !strings.HasPrefix(name, "Migration") {
		name = "Migration" + name // its names are too general: Status, Progress
	}
	return publicName(name)
}

// publicName returns the name of a schema for the capitalized name of a Go type.
func publicName(name string) string {
	if public, ok := schemaNames[name]; ok {
		return public
	}
	return strings.TrimSuffix(name, "View")
}

// upperFirst returns an ASCII name with an upper-case first letter.
func upperFirst(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// finish corrects what the registry cannot know: lists are never null, pointers are nullable even
// if an alias hides them, ids are UUIDs, and objects in responses may have more members. It adds
// the descriptions and turns lists of values into schemas of their own.
func (s *schemas) finish(routes []route) {
	all := s.registry.Map()
	strict := s.onlyRequests(routes)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for i := range routes {
		if _, ok := s.requests[routes[i].action.body]; ok {
			if body := all[s.name(routes[i].action.body, "")]; body.Description == "" {
				body.Description = "Body of `" + routes[i].id + "`."
			}
		}
	}
	for _, name := range names {
		schema := all[name]
		if schema.Description == "" {
			schema.Description = typeMeanings[name]
		}
		if schema.Description == "" && strings.HasSuffix(name, "Page") {
			schema.Description = "Page of a list; `next_cursor` continues it."
		}
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
		if !strict[name] {
			schema.AdditionalProperties = nil
		}
		s.describe(name, schema, t)
	}
}

// describe completes the properties of a schema from the fields of its type.
func (s *schemas) describe(name string, schema *huma.Schema, t reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := schema.Properties[member]
		if p == nil {
			continue
		}
		at := name + "." + member
		if isID(f.Type) {
			p.Format = "uuid"
		}
		of := p
		if p.Type == "array" {
			of = p.Items
			if kind := f.Type.Kind(); (kind == reflect.Slice || kind == reflect.Pointer) && isID(f.Type.Elem()) {
				of.Format = "uuid"
			}
		}
		if len(of.Enum) == 0 {
			for _, value := range moreEnums[at] {
				of.Enum = append(of.Enum, value)
			}
		}
		about := p.Description
		for _, meaning := range []string{meanings[at], meanings[member]} {
			if about == "" {
				about = meaning
			}
		}
		p.Description = about
		if ref := s.enum(of); ref != nil && of == p {
			ref.Default, ref.Description, ref.Nullable = p.Default, about, p.Nullable
			p = ref
		} else if ref != nil {
			p.Items = ref
		}
		if f.Type.Kind() == reflect.Pointer && options == "" || p.Ref != "" && p.Nullable {
			p = orNull(p)
		}
		schema.Properties[member] = p
	}
}

// enum moves the values of a schema into a named schema and returns a reference to it; nil if the
// values have no name.
func (s *schemas) enum(of *huma.Schema) *huma.Schema {
	values := make([]string, 0, len(of.Enum))
	for _, value := range of.Enum {
		values = append(values, fmt.Sprint(value))
	}
	name, ok := enumNames[strings.Join(values, " ")]
	if !ok {
		return nil
	}
	s.registry.Map()[name] = &huma.Schema{Type: "string", Enum: of.Enum, Description: typeMeanings[name]}
	return &huma.Schema{Ref: schemaPrefix + name}
}

// onlyRequests returns the names of the schemas that request bodies use and responses do not. Only
// these refuse members that they do not describe.
func (s *schemas) onlyRequests(routes []route) map[string]bool {
	requests, responses := map[string]bool{}, map[string]bool{}
	for i := range routes {
		rt := &routes[i]
		if rt.action.body != nil {
			s.reach(s.registry.Schema(rt.action.body, true, ""), requests)
		}
		for _, o := range rt.outcomes {
			if o.body != nil {
				s.reach(s.registry.Schema(o.body, true, ""), responses)
			}
		}
	}
	for name := range responses {
		delete(requests, name)
	}
	return requests
}

// reach adds the names of the schemas that a schema refers to, directly or not.
func (s *schemas) reach(schema *huma.Schema, into map[string]bool) {
	if schema == nil {
		return
	}
	if name, ok := strings.CutPrefix(schema.Ref, schemaPrefix); ok {
		if !into[name] {
			into[name] = true
			s.reach(s.registry.Map()[name], into)
		}
		return
	}
	s.reach(schema.Items, into)
	for _, p := range schema.Properties {
		s.reach(p, into)
	}
	for _, one := range schema.AnyOf {
		s.reach(one, into)
	}
	if values, ok := schema.AdditionalProperties.(*huma.Schema); ok {
		s.reach(values, into)
	}
}

// isID reports whether a type, or what it points to, is an id: 16 bytes, as text a UUID.
func isID(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Array && t.Len() == 16 && t.Elem().Kind() == reflect.Uint8
}

// orNull makes a schema nullable. A reference needs anyOf for that.
func orNull(p *huma.Schema) *huma.Schema {
	if p.Ref == "" {
		p.Nullable = true
		return p
	}
	return &huma.Schema{AnyOf: []*huma.Schema{{Ref: p.Ref}, {Type: "null"}}, Description: p.Description, Default: p.Default}
}
