package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// addresses returns every method and path that the served document describes.
func (s *stack) addresses(t *testing.T) map[string][]string {
	t.Helper()
	doc := s.do(t, request{method: "GET", path: "/api/openapi.json"}).json(t, http.StatusOK)
	all := map[string][]string{}
	for path, item := range doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			all[path] = append(all[path], strings.ToUpper(method))
		}
	}
	if len(all) < 30 {
		t.Fatalf("only %d addresses are described", len(all))
	}
	return all
}

// fill puts values into the wildcards of a path.
func fill(path string, values ...string) string {
	return strings.NewReplacer(append(values, "{path}", "x/y", "{n}", "0")...).Replace(path)
}

func TestEveryDescribedAddressAsksForAToken(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	anybody := map[string]bool{"POST /api/v1/sessions": true, "GET /api/v1/links": true, "GET /api/v1/export-links": true}
	for path, methods := range s.addresses(t) {
		for _, method := range methods {
			at := fill(path, "{id}", "x", "{v}", "x", "{key}", "park/x", "{token}", "x")
			got := s.do(t, request{method: method, path: at})
			if strings.HasPrefix(path, "/api/v1/public/") { // the token of a link is in the path
				got.problem(t, drive.NotFound, nil)
				continue
			}
			if strings.HasPrefix(path, "/api/v1/sign-on") { // for everybody; without a provider there is nothing to do
				if got.StatusCode == http.StatusUnauthorized {
					t.Errorf("%s %s asks for a token", method, path)
				}
				continue
			}
			if anybody[method+" "+path] {
				got.problem(t, drive.BadRequest, nil) // its parameter, or its body, is missing
				continue
			}
			got.problem(t, drive.Unauthenticated, nil)
			if got.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s: 401 without WWW-Authenticate", method, path)
			}
		}
	}
}

func TestOtherMethodsAndAddressesAreProblems(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	got := u.send(t, "PUT", "/me", nil)
	got.problem(t, drive.Method, map[string]any{"method": "PUT"})
	if allow := got.Header.Get("Allow"); !strings.Contains(allow, "GET") || !strings.Contains(allow, "HEAD") {
		t.Errorf("Allow is %q", allow)
	}
	for _, path := range []string{"/nope", "/uploads/x/y/z", "/nodes/root/nope"} {
		u.get(t, path).problem(t, drive.NotFound, nil)
	}
	u.send(t, "PUT", "/files/", []byte("x")).problem(t, drive.BadName, map[string]any{"reason": "empty"})
}

func TestAdministratorsRoutesAreForAdministrators(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, boss := s.newUser(t, "ann", 0), s.admin(t)
	in := map[string]any{"name": "robot", "scopes": []string{"read", "write"}}
	robot := user{stack: s, token: boss.post(t, "/tokens", in).json(t, http.StatusCreated)["token"].(string)}
	n := 0
	for path, methods := range s.addresses(t) {
		if !strings.HasPrefix(path, "/api/v1/admin/") {
			continue
		}
		for _, method := range methods {
			n++
			at := strings.TrimPrefix(fill(path, "{id}", u.id, "{key}", "park/"+u.id), "/api/v1")
			for _, who := range []user{u, robot} {
				who.send(t, method, at, "{}").problem(t, drive.Forbidden, map[string]any{"scope": "admin"})
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d routes were tried", n)
	}
}

func TestScopesLimitTokens(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	token := func(scope string) user {
		in := map[string]any{"name": scope, "scopes": []string{scope}, "expires_in": 3600}
		return user{stack: s, token: u.post(t, "/tokens", in).json(t, http.StatusCreated)["token"].(string)}
	}
	reader, writer := token("read"), token("write")
	reader.send(t, "PUT", "/files/a", []byte("x")).problem(t, drive.Forbidden, map[string]any{"scope": "write"})
	writer.put(t, "/a", []byte("x"))
	writer.get(t, "/nodes?path=/a").problem(t, drive.Forbidden, map[string]any{"scope": "read"})
	reader.get(t, "/nodes?path=/a").json(t, http.StatusOK)
	writer.post(t, "/tokens", map[string]any{"name": "x", "scopes": []string{"read"}}).problem(t, drive.Forbidden, map[string]any{"reason": "login-required"})
	u.post(t, "/tokens", map[string]any{"name": "x", "scopes": []string{"admin"}}).problem(t, drive.Forbidden, nil)
}

// TestForeignObjectsAreNotFound calls every route that names an object with ids of another user.
func TestForeignObjectsAreNotFound(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	owner, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	file := owner.put(t, "/f", []byte("secret"))["id"].(string)
	version := owner.get(t, "/nodes/"+file+"/versions").items(t)[0]["id"].(string)
	up := owner.post(t, "/uploads", map[string]any{"path": "/g", "size": 10}).json(t, http.StatusCreated)["id"].(string)
	session := owner.get(t, "/sessions").items(t)[0]["id"].(string)
	token := owner.post(t, "/tokens", map[string]any{"name": "x", "scopes": []string{"read"}}).json(t, http.StatusCreated)["id"].(string)
	shared := owner.post(t, "/shares", map[string]any{"node": file}).json(t, http.StatusCreated)["id"].(string)
	collect := owner.post(t, "/collects", map[string]any{"folder": "root", "title": "x"}).json(t, http.StatusCreated)["id"].(string)
	exported := owner.post(t, "/exports", map[string]any{"nodes": []string{file}}).json(t, http.StatusCreated)["id"].(string)
	archive := owner.post(t, "/archives", map[string]any{"nodes": []string{file}}).json(t, http.StatusCreated)["id"].(string)
	schedule := owner.post(t, "/export-schedules", map[string]any{"folder": "root", "name": "all"}).json(t, http.StatusCreated)["id"].(string)
	bundle, document := owner.takeIn(t, invoicetest.New(1))
	owner.post(t, "/uploads", map[string]any{"path": "/k", "size": 1}, "Idempotency-Key", "k").json(t, http.StatusCreated)
	owner.post(t, "/uploads", map[string]any{"path": "/k", "size": 2}, "Idempotency-Key", "k").problem(t, drive.KeyReused, nil)
	conflict := owner.get(t, "/key-conflicts").items(t)[0]["id"].(string)
	owned, hook := owner.space(t, "Owned"), owner.hook(t, "hook")
	bodies := map[string]any{
		"POST /nodes/{id}/grants":     map[string]any{"kind": "user", "principal": "bob", "role": "viewer"},
		"POST /documents/{id}/settle": map[string]any{"keep": "new"}, "POST /bundles/{id}/accept": map[string]any{"place": "1.0", "reason": "x"},
		"POST /exports/{id}/links": map[string]any{"expires_in": 60}, "POST /exports/{id}/files": map[string]any{"folder": "root"},
		"PUT /uploads/{id}/parts/{n}": []byte("0123456789"), "POST /uploads/{id}/proof": map[string]any{"alg": "blake3", "answer": strings.Repeat("0", 64)},
		"POST /webhooks/{id}/replay": map[string]any{"since": "2026-11-20T00:00:00Z"},
		"POST /nodes/{id}/copy":      map[string]any{"parent": "root"}, "POST /nodes/{id}/links": map[string]any{"expires_in": 60},
	}
	n := 0
	for path, methods := range s.addresses(t) {
		path = strings.TrimPrefix(path, "/api/v1")
		if !strings.Contains(path, "{id}") || strings.HasPrefix(path, "/admin/") || strings.HasPrefix(path, "/public/") {
			continue
		}
		id := map[string]string{
			"uploads": up, "nodes": file, "sessions": session, "tokens": token, "operations": file, "shares": shared, "collects": collect,
			"exports": exported, "archives": archive, "export-schedules": schedule, "bundles": bundle, "documents": document, "key-conflicts": conflict, "spaces": owned["id"].(string),
			"webhooks":       hook,
			"shared-with-me": file,
		}[strings.Split(path, "/")[1]]
		for _, method := range methods {
			n++
			body := bodies[method+" "+path]
			if body == nil && (method == "POST" || method == "PATCH") {
				body = "{}"
			}
			for _, id := range []string{id, strings.ToUpper(id), "x", "0", "root2", id[:35]} {
				other.send(t, method, fill(path, "{id}", id, "{v}", version, "{principal}", version), body).problem(t, drive.NotFound, nil)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d routes were tried", n)
	}
	other.post(t, "/uploads", map[string]any{"parent": file, "name": "x", "size": 1}).problem(t, drive.NotFound, nil)
	other.get(t, "/nodes?path=/f").problem(t, drive.NotFound, nil)
	if got := owner.get(t, "/nodes/"+file+"/content"); string(got.body) != "secret" {
		t.Errorf("the owner reads %s", got)
	}
}

// Null is no value of a list, or of a set of named values, on any route: it is not read as the
// empty one of its type.
func TestNullIsNoValueOfAList(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	boss := s.admin(t)
	doc := s.do(t, request{method: "GET", path: "/api/openapi.json"}).json(t, http.StatusOK)
	schemas, _ := doc["components"].(map[string]any)["schemas"].(map[string]any)
	resolve := func(schema map[string]any) map[string]any {
		if ref, ok := schema["$ref"].(string); ok {
			schema, _ = schemas[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any)
		}
		return schema
	}
	n := 0
	for path, item := range doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			body, _ := op.(map[string]any)["requestBody"].(map[string]any)
			content, _ := body["content"].(map[string]any)
			media, _ := content["application/json"].(map[string]any)
			schema, _ := media["schema"].(map[string]any)
			members, _ := resolve(schema)["properties"].(map[string]any)
			for name, member := range members {
				kind, _ := resolve(member.(map[string]any))["type"].(string)
				value := map[string]string{"array": `[null]`, "object": `{"blake3":null}`}[kind]
				if value == "" {
					continue
				}
				n++
				at := strings.TrimPrefix(fill(path, "{id}", "root", "{v}", "x", "{key}", "park/x", "{token}", "x", "{principal}", "x"), "/api/v1")
				got := boss.send(t, strings.ToUpper(method), at, `{"`+name+`":`+value+`}`)
				if got.StatusCode != http.StatusBadRequest && got.StatusCode != http.StatusNotFound {
					t.Errorf("%s %s takes %s in %s: %s", method, path, value, name, got)
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d lists were tried", n)
	}
	boss.post(t, "/conflicts/settle", `{"keep":"old","conflicts":[null]}`).problem(t, drive.BadRequest, map[string]any{"field": "conflicts"})
}
