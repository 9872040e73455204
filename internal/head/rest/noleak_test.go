package rest_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// secret names an object of another user, and a missing one of the same kind.
type secret struct{ name, there, missing string }

// probe is a request that names something, made from the description of a route.
type probe struct {
	method, path string
	body         any
}

// probes derives from the served OpenAPI document, for each route, the requests that name an id or
// a path: in the URL path, the query or the body. New routes are included automatically.
func (s *stack) probes(t *testing.T) (all []func(id, place string) probe) {
	t.Helper()
	doc := s.do(t, request{method: "GET", path: "/api/openapi.json"}).json(t, http.StatusOK)
	paths := doc["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			op := item[method].(map[string]any)
			if endless(op) || path == "/api/v1/sessions/current" {
				continue
			}
			all = append(all, func(id, place string) probe {
				return probe{strings.ToUpper(method), strings.TrimPrefix(path, "/api/v1") + queryOf(op, id, place), bodyOf(doc, op, id, place)}
			})
		}
	}
	return all
}

// endless reports whether an answer is a stream of events, which has no end to compare.
func endless(op map[string]any) bool {
	return strings.Contains(fmt.Sprint(op["responses"]), "text/event-stream")
}

func queryOf(op map[string]any, id, place string) string {
	var parts []string
	params, _ := op["parameters"].([]any)
	for _, p := range params {
		param := p.(map[string]any)
		name := fmt.Sprint(param["name"])
		if param["in"] != "query" {
			continue
		}
		switch name {
		case "space":
			parts = append(parts, "space="+place)
		case "path", "in":
			parts = append(parts, name+"=%2F%2F"+place+"%2Fin")
		case "node", "folder", "parent", "share", "user", "account":
			parts = append(parts, name+"="+id)
		default:
			if param["required"] == true {
				parts = append(parts, name+"=xx")
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "?" + strings.Join(parts, "&")
}

func bodyOf(doc, op map[string]any, id, place string) any {
	body, _ := op["requestBody"].(map[string]any)
	content, _ := body["content"].(map[string]any)
	typed, ok := content["application/json"].(map[string]any)
	if !ok {
		if content == nil {
			return nil
		}
		return []byte("x")
	}
	return exampleOf(doc, "", typed["schema"].(map[string]any), id, place)
}

var meansID = regexp.MustCompile(`\bids?\b`)

// exampleOf is a value of a schema in which each id is the one given, and each path leads into the
// place.
func exampleOf(doc map[string]any, name string, schema map[string]any, id, place string) any {
	if ref, ok := schema["$ref"].(string); ok {
		all := doc["components"].(map[string]any)["schemas"].(map[string]any)
		schema = all[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	if allowed, ok := schema["enum"].([]any); ok {
		return allowed[0]
	}
	typ := schema["type"]
	if some, ok := typ.([]any); ok { // or null
		typ = some[0]
	}
	switch typ {
	case "object":
		value := map[string]any{}
		props, _ := schema["properties"].(map[string]any)
		for key, p := range props {
			value[key] = exampleOf(doc, key, p.(map[string]any), id, place)
		}
		if value["path"] != nil && value["parent"] != nil { // one or the other
			delete(value, "path")
		}
		return value
	case "array":
		return []any{exampleOf(doc, name, schema["items"].(map[string]any), id, place)}
	case "integer", "number":
		if least, ok := schema["minimum"]; ok {
			return least
		}
		return 1
	case "boolean":
		return true
	}
	switch {
	case strings.Contains(name, "path"):
		return "//" + place + "/in/new"
	case meansID.MatchString(fmt.Sprint(schema["description"])), slices.Contains([]string{"node", "nodes", "parent", "folder", "id", "ids"}, name):
		return id
	case name == "name", name == "title":
		return "new"
	}
	return "xx"
}

// caller is a user who tries every probe.
type caller struct {
	name, token string
	header      []string
	link        string // the token of a link, in the paths of those who come by one
}

func (s *stack) tries(t *testing.T, c caller, p probe, id string) response {
	t.Helper()
	link := c.link
	if link == "" {
		link = id
	}
	at := fill(p.path, "{id}", id, "{v}", id, "{key}", "park/"+id, "{token}", link, "{principal}", id, "{user}", id)
	at = regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllString(at, id)
	in := request{method: p.method, path: "/api/v1" + at, token: c.token, body: p.body, header: map[string]string{}}
	for i := 0; i+1 < len(c.header); i += 2 {
		in.header[c.header[i]] = c.header[i+1]
	}
	return s.do(t, in)
}

// said formats a whole response, with placeholders for what differs between any two requests and
// for the requested ids.
func said(r response, asked ...string) string {
	var b bytes.Buffer
	fmt.Fprintln(&b, r.StatusCode)
	header := r.Header.Clone()
	for _, own := range []string{"Date", "X-Request-Id", "Idempotency-Key"} {
		header.Del(own)
	}
	_ = header.Write(&b)
	text := b.String() + string(r.body)
	for _, a := range asked {
		text = strings.ReplaceAll(text, a, "ASKED")
	}
	return chance.ReplaceAllString(text, "CHANCE")
}

// chance are ids and tokens.
var chance = regexp.MustCompile(`[A-Za-z0-9_-]{22,}`)

// TestForeignObjectsAreIndistinguishableFromMissing is the matrix of A2: for every route and every
// user without access, the response for an existing object equals the one for a missing object byte
// for byte, and the requests change nothing.
func TestForeignObjectsAreIndistinguishableFromMissing(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, eve, bob := s.newUser(t, "ann", 0), s.newUser(t, "eve", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Quux")
	inTeam := ann.mkdir(t, "//Quux/in").json(t, http.StatusCreated)["id"].(string)
	file := ann.put(t, "/hidden/f.txt", []byte("secret"))["id"].(string)
	folder := ann.at(t, "/hidden")
	ann.put(t, "/shown/g.txt", []byte("shown"))
	shown := ann.at(t, "/shown")
	upload := ann.post(t, "/uploads", map[string]any{"path": "/hidden/u", "size": 5}).json(t, http.StatusCreated)["id"].(string)
	version := ann.get(t, "/nodes/"+file+"/versions").items(t)[0]["id"].(string)
	_, share := ann.shareOf(t, file, nil)
	_, collect := ann.collectInto(t, folder, nil)
	ann.take(t, ann.give(t, team["root_id"], "eve", "editor"))

	visitor, _ := ann.shareOf(t, shown, nil)
	visitor = visitor.open(t, "")
	link, _ := ann.collectInto(t, shown, nil)
	sender := s.sender(t, link, "kid")
	callers := []caller{{name: "a former member", token: eve.token}}
	if depth.Pick(0, 1, 1) == 1 {
		callers = append(callers, caller{name: "an outsider", token: bob.token}, caller{name: "nobody"},
			caller{name: "a visitor", header: []string{"Authorization", "Share " + visitor.access}, link: visitor.token},
			caller{name: "a sender", token: sender.token, link: link})
		for _, role := range []string{"editor", "manager", "viewer", "uploader"}[:depth.Pick(0, 1, 4)] {
			guest := s.newUser(t, role, 0)
			ann.give(t, shown, role, role)
			ann.give(t, inTeam, role, role)
			callers = append(callers, caller{name: "the " + role + " of another folder", token: guest.token})
		}
	}
	// Ids of the same shape, of nothing.
	other := func(name, there string) secret { return secret{name, there, drive.NewID[drive.NodeID]().String()} }
	secrets := []secret{
		other("file", file), other("folder", folder), other("root", ann.get(t, "/nodes/root").json(t, http.StatusOK)["id"].(string)),
		other("upload", upload), other("version", version), other("share", share["id"].(string)), other("collect link", collect),
		other("user", ann.id),
	}
	if depth.Pick(0, 1, 1) == 1 {
		secrets = append(secrets, other("space", team["id"].(string)), other("root of a space", team["root_id"].(string)))
	}
	before := ann.everything(t, file, folder, upload, share["id"].(string), collect, team["id"].(string), inTeam)
	refused, told := 0, map[string]bool{}
	for _, make := range s.probes(t) {
		for _, c := range callers {
			for _, x := range secrets {
				guest := strings.HasPrefix(c.name, "the ")
				if guest && x.name == "space" || strings.Contains(make("", "").path, "/people") {
					continue // a guest of a folder in it may know the space by its id; people are found by name
				}
				place, none := "Quux", "Zork"
				if guest {
					place = none // they may see something of it
				}
				there, missing := s.tries(t, c, make(x.there, place), x.there), s.tries(t, c, make(x.missing, none), x.missing)
				got, want := said(there, x.there, place, strings.ToLower(place)), said(missing, x.missing, none, strings.ToLower(none))
				if p := make(x.there, place); got != want && !told[p.method+p.path] {
					told[p.method+p.path] = true
					t.Errorf("%s asks with the %s: %s %s\n--- it is there\n%s\n--- it is not\n%s", c.name, x.name, p.method, p.path, clipped(got), clipped(want))
				}
				if there.StatusCode == http.StatusNotFound {
					refused++
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d answers were 404: the requests do not reach what they ask for", refused)
	}
	if after := ann.everything(t, file, folder, upload, share["id"].(string), collect, team["id"].(string), inTeam); after != before {
		t.Errorf("something was changed by who may not see it:\n%s\nwas\n%s", after, before)
	}
}

func clipped(s string) string {
	if len(s) > 600 {
		return s[:600]
	}
	return s
}

// everything returns all that the owner sees of the secrets.
func (u user) everything(t *testing.T, file, folder, upload, share, collect, space, inSpace string) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{
		"/nodes/" + file, "/nodes/" + folder, "/nodes/" + folder + "/children", "/uploads/" + upload, "/shares/" + share, "/collects/" + collect,
		"/spaces/" + space, "/nodes/" + inSpace, "/nodes/" + inSpace + "/children", "/trash",
	} {
		b.WriteString(string(u.get(t, path).body) + "\n")
	}
	return b.String()
}

// TestTrashIsHiddenFromGuests requests items that the owner of a shared folder has trashed, by
// every route. Guests get the response for a missing item, even if they were notified of it before.
// After a restore they have their roles again.
func TestTrashIsHiddenFromGuests(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", 0)
	alone := ann.put(t, "/shared/alone.txt", []byte("alone"))["id"].(string)
	within := ann.put(t, "/shared/sub/deep/within.txt", []byte("within"))["id"].(string)
	shared, sub, deep := ann.at(t, "/shared"), ann.at(t, "/shared/sub"), ann.at(t, "/shared/sub/deep")
	version := ann.get(t, "/nodes/"+within+"/versions").items(t)[0]["id"].(string)
	_, share := ann.shareOf(t, within, nil)
	visitor, _ := ann.shareOf(t, within, nil)
	visitor = visitor.open(t, "")
	boss := s.admin(t)
	staff := boss.made(t, "/admin/groups", map[string]any{"name": "staff"})
	var guests []user
	for _, role := range []string{"editor", "viewer", "manager"}[:depth.Pick(1, 3, 3)] {
		guest := s.newUser(t, role, 0)
		ann.give(t, shared, role, role)
		guests = append(guests, guest)
	}
	member := s.newUser(t, "member", 0)
	boss.send(t, "PUT", "/admin/groups/"+staff+"/members/"+member.id, nil)
	ann.post(t, "/nodes/"+shared+"/grants", map[string]any{"kind": "group", "principal": staff, "role": "editor"}).json(t, http.StatusCreated)
	guests = append(guests, member)
	there := func(want int) {
		t.Helper()
		for _, g := range guests {
			for _, path := range []string{"/nodes/" + alone, "/nodes/" + within, "/nodes/" + within + "/content", "/nodes/" + deep + "/children", "/nodes/" + sub} {
				if r := g.get(t, path); r.StatusCode != want {
					t.Errorf("%s: %s", path, r)
				}
			}
		}
		opened := s.do(t, request{method: "GET", path: "/api/v1/public/shares/" + visitor.token, header: map[string]string{"Authorization": "Share " + visitor.access}})
		if open := opened.StatusCode == http.StatusOK; open != (want == http.StatusOK) {
			t.Errorf("the share: %s", opened)
		}
	}
	there(http.StatusOK) // which keeps what is granted above
	for _, id := range []string{alone, sub} {
		ann.send(t, "DELETE", "/nodes/"+id, nil)
	}
	there(http.StatusNotFound)
	before := ann.get(t, "/trash").items(t)
	told := map[string]bool{}
	for _, make := range s.probes(t) {
		for _, g := range guests {
			for _, id := range []string{alone, within, deep, sub, version, share["id"].(string)} {
				missing := drive.NewID[drive.NodeID]().String()
				c := caller{token: g.token}
				got, want := said(s.tries(t, c, make(id, "Zork"), id), id), said(s.tries(t, c, make(missing, "Zork"), missing), missing)
				if p := make(id, "Zork"); got != want && !told[p.method+p.path] && !strings.Contains(p.path, "/people") {
					told[p.method+p.path] = true
					t.Errorf("%s %s\n--- in the trash\n%s\n--- not there\n%s", p.method, p.path, clipped(got), clipped(want))
				}
			}
		}
	}
	if after := ann.get(t, "/trash").items(t); len(after) != len(before) {
		t.Errorf("there were %d things in the trash, and now there are %d", len(before), len(after))
	}
	for _, id := range []string{alone, sub} {
		ann.post(t, "/nodes/"+id+"/restore", map[string]any{}).json(t, http.StatusOK)
	}
	there(http.StatusOK)
}
