package rest_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

var updateAuthz = flag.Bool("update-authz", false, "write testdata/authz.txt from what the server answers; read the difference")

const authzFile = "testdata/authz.txt"

// authzCallers are the columns of the matrix: the scopes of tokens of the owner of a thing, the
// roles of others at it, and its owner.
var authzCallers = []string{"nobody", "reader", "writer", "stranger", "viewer", "uploader", "editor", "manager", "owner", "admin"}

// TestEachRouteIsInAuthzMatrix compares the server with testdata/authz.txt, which says for
// each route of the served description who is allowed. A new route fails until it has a row. Below
// the deep level each route is called by two of the callers.
func TestEachRouteIsInAuthzMatrix(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	want := readAuthz(t)
	doc := s.do(t, request{method: "GET", path: "/api/openapi.json"}).json(t, http.StatusOK)
	var routes []string
	for path, item := range doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			routes = append(routes, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(routes)
	if missing := cmp.Diff(slices.Sorted(maps.Keys(want)), routes); missing != "" && !*updateAuthz {
		t.Fatalf("rows of %s and routes (-row +route); go test ./internal/head/rest -run TestEachRouteIsInAuthzMatrix -update-authz writes them:\n%s", authzFile, missing)
	}
	if depth.Pick(0, 1, 1) == 0 {
		return
	}
	m := newAuthz(t, s)
	got := make(map[string]string, len(routes))
	for i, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		op := doc["paths"].(map[string]any)[path].(map[string]any)[strings.ToLower(method)].(map[string]any)
		got[route] = m.row(t, doc, op, method, path, func(caller int) (cell string, known bool) {
			if cells := strings.Fields(want[route]); !*updateAuthz && !depth.IsDeep() && (i+caller)%5 != 0 && len(cells) == len(authzCallers) {
				return cells[caller], true
			}
			return "", false
		})
	}
	if *updateAuthz {
		writeAuthz(t, routes, got)
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("who is let in (-row +answers):\n%s", d)
	}
}

func readAuthz(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(authzFile)
	if err != nil && !*updateAuthz {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && !strings.HasPrefix(line, "#") {
			rows[f[0]+" "+f[1]] = strings.Join(f[2:], " ")
		}
	}
	return rows
}

func writeAuthz(t *testing.T, routes []string, rows map[string]string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# Who is let in at each route: +, or the status of the refusal (400: the body, before anybody is asked). A thing that is named is the owner's.\n# METHOD path: %s\n", strings.Join(authzCallers, " "))
	for _, r := range routes {
		fmt.Fprintf(&b, "%-64s %s\n", r, rows[r])
	}
	if err := os.WriteFile(authzFile, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// authz is the people of the matrix.
type authz struct {
	s       *stack
	owner   user
	callers map[string]user
	nth     uint64
}

func newAuthz(t *testing.T, s *stack) *authz {
	t.Helper()
	m := &authz{s: s, owner: s.newUser(t, "owner", 0), callers: map[string]user{"nobody": {stack: s}, "admin": s.admin(t)}}
	m.callers["owner"] = m.owner
	m.callers["reader"], _ = m.owner.tokenOf(t, "read")
	m.callers["writer"], _ = m.owner.tokenOf(t, "write")
	for _, name := range authzCallers[3:8] {
		m.callers[name] = s.newUser(t, name, 0)
	}
	return m
}

// row calls a route as every caller, each time for a new object. Callers whose cells are taken as
// known are left out.
func (m *authz) row(t *testing.T, doc, op map[string]any, method, path string, taken func(caller int) (string, bool)) string {
	t.Helper()
	var cells []string
	for i, name := range authzCallers {
		if endless(op) || path == "/api/v1/sessions/current" { // never ends, or ends the caller
			return "-"
		}
		if cell, ok := taken(i); ok {
			cells = append(cells, cell)
			continue
		}
		m.nth++
		m.s.Clock.Advance(time.Second) // the limit of requests fills up
		folder := m.owner.mkdir(t, fmt.Sprintf("/thing-%d", m.nth)).json(t, http.StatusCreated)["id"].(string)
		m.owner.mkdir(t, "//"+folder+"/in").json(t, http.StatusCreated)
		if slices.Contains(authzCallers[4:8], name) {
			m.owner.give(t, folder, name, name)
		}
		id := m.thing(t, folder, path)
		body, own := authzBodies(id)[method+" "+path]
		if !own {
			body = bodyOf(doc, op, id, folder)
		}
		at := regexp.MustCompile(`\{[a-z_.]+\}`).ReplaceAllString(fill(path, "{key}", "park/"+id, "{key...}", "park/"+id), id) + queryOf(op, id, folder)
		r := m.s.do(quiet{t}, request{method: method, path: at, token: m.callers[name].token, body: body})
		if kind := strings.Split(path, "/")[3]; strings.Contains(path, "{id}") && kind != "nodes" { // there are limits on how many are kept
			m.owner.send(t, "DELETE", "/"+kind+"/"+id, nil)
		}
		switch r.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest:
			cells = append(cells, fmt.Sprint(r.StatusCode))
		default:
			cells = append(cells, "+")
		}
	}
	return strings.Join(cells, " ")
}

// authzBodies returns bodies for routes that refuse the body generated from the description.
func authzBodies(id string) map[string]any {
	return map[string]any{
		"PATCH /api/v1/nodes/{id}": map[string]any{"name": "new"}, "PATCH /api/v1/shares/{id}": map[string]any{"max_downloads": 1},
		"PATCH /api/v1/collects/{id}": map[string]any{"title": "new"}, "POST /api/v1/uploads": map[string]any{"parent": id, "name": "new", "size": 1},
		"POST /api/v1/exports": map[string]any{"nodes": []string{id}}, "POST /api/v1/archives": map[string]any{"nodes": []string{id}},
		"POST /api/v1/operations": map[string]any{"kind": "trash", "nodes": []string{id}}, "POST /api/v1/exports/{id}/files": map[string]any{"folder": "root"},
		"POST /api/v1/uploads/{id}/proof":   map[string]any{"alg": "blake3", "answer": strings.Repeat("0", 64)},
		"POST /api/v1/webhooks/{id}/replay": map[string]any{"since": "2026-11-20T00:00:00Z"},
	}
}

// quiet is a test to which it does not matter whether an answer is as described: others look.
type quiet struct{ testing.TB }

// Errorf implements testing.TB.
func (quiet) Errorf(string, ...any) {}

// thing creates the object that a path names, in the folder, and returns its id.
func (m *authz) thing(t *testing.T, folder, path string) string {
	t.Helper()
	made := func(at string, in map[string]any) string {
		return m.owner.post(t, at, in).json(t, http.StatusCreated)["id"].(string)
	}
	file := func() string {
		return m.owner.send(t, "PUT", "/files/f.txt?space="+folder, []byte("x")).json(t, http.StatusCreated)["id"].(string)
	}
	if !strings.Contains(path, "{id}") {
		return folder
	}
	switch strings.Split(path, "/")[3] {
	case "uploads":
		return made("/uploads", map[string]any{"parent": folder, "name": "u", "size": 10})
	case "shares":
		return made("/shares", map[string]any{"node": file()})
	case "collects":
		return made("/collects", map[string]any{"folder": folder, "title": "x"})
	case "exports":
		return made("/exports", map[string]any{"nodes": []string{file()}})
	case "archives":
		return made("/archives", map[string]any{"nodes": []string{file()}})
	case "export-schedules":
		return made("/export-schedules", map[string]any{"folder": folder, "name": "all"})
	case "tokens":
		return made("/tokens", map[string]any{"name": "x", "scopes": []string{"read"}})
	case "webhooks":
		return m.owner.hook(t, fmt.Sprint("hook-", m.nth))
	case "bundles", "documents":
		bundle, document := m.owner.takeIn(t, invoicetest.New(m.nth))
		if strings.Contains(path, "bundles") {
			return bundle
		}
		return document
	case "nodes":
		if strings.Contains(path, "/content") || strings.Contains(path, "/versions") || strings.Contains(path, "/thumbnail") {
			return file()
		}
	}
	return folder
}
