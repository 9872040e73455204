package columns

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

func peopleDeeds() []deed {
	return []deed{
		{"me", 2, func(a *actor, p *person, _ *rand.Rand) { a.do(p, request{"GET", "/me", nil, nil}) }},
		{"ledger", 4, ledger},
		{"total", 4, setTotal},
		{"again", 5, again},
		{"log in", 1, logIn},
		{"log out", 1, logOut},
		{"password", 1, setPassword},
		{"token", 2, makeToken},
		{"use token", 3, useToken},
		{"end token", 1, endToken},
		{"sessions", 1, func(a *actor, p *person, r *rand.Rand) { a.pages(p, r, "/"+one(r, "sessions", "tokens")+"?") }},
		{"user", 2, createUser},
		{"find user", 1, findUser},
		{"account's uploads", 1, accountUploads},
		{"reset", 1, reset},
	}
}

// byAdmin is a request of the administrator.
func (a *actor) byAdmin(method, path string, body any) reply {
	return a.as(a.admin, request{method, path, body, nil})
}

func ledger(a *actor, p *person, _ *rand.Rand) { a.byAdmin("GET", "/admin/users/"+p.id+"/ledger", nil) }

// setTotal makes the quota full, or wide again.
func setTotal(a *actor, p *person, r *rand.Rand) {
	var now struct{ Finished, Reserved, Unfinished int64 }
	a.byAdmin("GET", "/admin/users/"+p.id+"/ledger", nil).json(&now)
	used := now.Finished + now.Reserved + now.Unfinished
	total := one[any](r, used, used+777, used+mib, used/2, 90*mib, 120*mib, 200*mib, nil, -1)
	a.byAdmin("PATCH", "/admin/users/"+p.id, map[string]any{"total": total})
}

// again repeats a request that had an Idempotency-Key, as it was or changed.
func again(a *actor, p *person, r *rand.Rand) {
	q := pick(r, p.keyed)
	if q.method == "" {
		return
	}
	if body, ok := q.body.(map[string]any); ok && chance(r, 3) {
		other := map[string]any{"conflict": "rename", "mtime": "2001-01-01T00:00:00.000Z"}
		maps.Copy(other, body)
		q.body = other
	}
	if chance(r, 6) {
		q.path, q.body = "/nodes", map[string]any{"type": "folder", "parent": "root", "name": someName(r)}
	}
	a.do(p, q)
}

// logIn succeeds or fails; after ten failures a person and an address have to wait, which each
// instance counts for itself.
func logIn(a *actor, p *person, r *rand.Rand) {
	if a.wrong < 5 && chance(r, 2) {
		a.wrong++
		name := one(r, p.name, "nobody-"+a.names.salt)
		a.as("", request{"POST", "/sessions", map[string]any{"name": name, "password": "wrong password"}, nil})
		return
	}
	p.endLater(p.token)
	a.login(p)
}

// endLater registers a token that is valid and no longer needed.
func (p *person) endLater(token string) { p.tokens = append(p.tokens, [2]string{"", token}) }

func logOut(a *actor, p *person, r *rand.Rand) {
	if len(p.logins) < 2 {
		logIn(a, p, r)
		return
	}
	i := r.IntN(len(p.logins) - 1) // the last one is in use
	end := p.logins[i]
	p.logins = slices.Delete(p.logins, i, i+1)
	a.do(p, request{"DELETE", "/sessions/" + end[0], nil, nil})
	a.isOver(p, end[1])
}

// isOver checks that a token is refused at the instance that has ended it. atLast checks the
// others.
func (a *actor) isOver(p *person, token string) {
	p.tokens = slices.DeleteFunc(p.tokens, func(t [2]string) bool { return t[1] == token })
	p.ended = append(p.ended, token)
	a.only = a.last
	a.as(token, request{"GET", "/me", nil, nil})
	a.only = nil
}

// atLast waits until ended tokens are refused at every instance. An instance may use a cached row
// for up to 5 s.
func (a *actor) atLast(p *person) {
	late := time.NewTimer(2 * time.Minute) // the machine may be busy
	defer late.Stop()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for _, token := range p.ended {
		for i := range a.sites {
			for a.only = &a.sites[i]; ; {
				got, _, err := a.send(token, request{"GET", "/me", nil, nil})
				if err == nil && got.status == http.StatusUnauthorized {
					break
				}
				select {
				case <-again.C:
					continue
				case <-late.C:
					a.fault(fmt.Errorf("a token that has ended is answered with %d, %w", got.status, err))
				}
				break
			}
		}
	}
	a.only = nil
}

// setPassword changes the password, which ends all other logins of the person.
func setPassword(a *actor, p *person, r *rand.Rand) {
	current := p.password
	if a.wrong < 5 && chance(r, 3) {
		a.wrong++
		current = "wrong password"
	}
	next := one(r, password, "another password", "short")
	got := a.do(p, request{"PUT", "/me/password", map[string]any{"current": current, "password": next}, nil})
	if got.status != http.StatusNoContent {
		return
	}
	p.password = next
	over := slices.Concat(p.tokens, p.logins[:len(p.logins)-1])
	p.tokens, p.logins = nil, p.logins[len(p.logins)-1:]
	for _, t := range over {
		if t[1] != p.token && !slices.Contains(p.ended, t[1]) {
			a.isOver(p, t[1])
		}
	}
}

func makeToken(a *actor, p *person, r *rand.Rand) {
	body := map[string]any{"name": one(r, "phone", "", strings.Repeat("x", 65)), "scopes": one(r, []string{"read"}, []string{"read", "write"}, []string{"write"}, []string{"all"}, []string{}, []string{"admin"})}
	if chance(r, 3) {
		body["expires_in"] = one(r, 3600, 86400, 1, 315360001) // one that ends before the script would end on slow columns first
	}
	var made struct{ ID, Token string }
	if a.do(p, request{"POST", "/tokens", body, nil}).json(&made); made.Token != "" {
		p.tokens = append(p.tokens, [2]string{made.ID, made.Token})
	}
}

func useToken(a *actor, p *person, r *rand.Rand) {
	token := pick(r, p.tokens)[1]
	q := one(r, request{"GET", "/me", nil, nil}, request{"POST", "/prepare", nil, nil}, request{"GET", "/admin/users", nil, nil},
		request{"POST", "/tokens", map[string]any{"name": "of a token", "scopes": []string{"read"}}, nil})
	a.as(token, q)
}

func endToken(a *actor, p *person, r *rand.Rand) {
	t := pick(r, p.tokens)
	if t[0] == "" {
		a.do(p, request{"DELETE", "/tokens/" + one(r, "x", "0198c0de-0000-7000-8000-000000000000"), nil, nil})
		return
	}
	a.do(p, request{"DELETE", "/tokens/" + t[0], nil, nil})
	a.isOver(p, t[1])
}

func createUser(a *actor, p *person, r *rand.Rand) {
	name := one(r, strings.ToUpper(p.name), p.name+" ", p.name+"\u00e9", p.name+"e\u0301", p.name+"E\u0301", p.name+"ß", p.name+"SS", "", "a\tb", strings.Repeat("u", 65))
	body := map[string]any{"name": name, "password": one(r, password, password, "short"), "total": one[any](r, nil, 5, -5)}
	q := request{"POST", "/admin/users", body, nil}
	if chance(r, 2) {
		q.header = []string{"Idempotency-Key", fmt.Sprintf("user-%s-%d", a.names.salt, r.IntN(3))}
	}
	a.as(a.admin, q)
}

func findUser(a *actor, p *person, r *rand.Rand) {
	name := one(r, p.name, strings.ToLower(p.name), strings.ToUpper(p.name), p.name+"E", "")
	if name == "" {
		name = "nobody"
	}
	a.as(a.admin, request{"GET", "/admin/users?name=" + escaped(name), nil, nil})
}

// accountUploads is what administrators see of a person's uploads.
func accountUploads(a *actor, p *person, r *rand.Rand) {
	var me struct{ Account struct{ ID string } }
	a.do(p, request{"GET", "/me", nil, nil}).json(&me)
	a.pages(&person{token: a.admin}, r, "/admin/uploads?account="+me.Account.ID+"&")
}

func reset(a *actor, p *person, r *rand.Rand) {
	if !chance(r, 3) {
		return
	}
	var me struct{ Account struct{ ID string } }
	a.do(p, request{"GET", "/me", nil, nil}).json(&me)
	a.byAdmin("POST", "/admin/uploads/reset", map[string]any{"account_id": me.Account.ID})
}

// survey requests everything a person has: the ledger, the feed, open uploads, and every node,
// version and content.
func (a *actor) survey(p *person) {
	a.atLast(p)
	a.byAdmin("GET", "/admin/users/"+p.id+"/ledger", nil)
	for _, path := range []string{"/me", "/uploads?limit=1000", "/trash?limit=1000", "/changes?limit=1000", "/sessions", "/tokens"} {
		a.do(p, request{"GET", path, nil, nil})
	}
	for _, n := range p.nodes {
		if n.typ == "folder" {
			a.do(p, request{"GET", "/nodes/" + n.id + "/children?limit=1000", nil, nil})
		}
	}
	p.versions = nil
	for _, n := range p.nodes {
		if n.typ == "file" {
			a.noteVersions(p, n.id)
		}
	}
	for _, v := range p.versions {
		a.fetch(p.token, request{"GET", "/nodes/" + v[0] + "/content?version=" + v[1], nil, nil})
	}
}
