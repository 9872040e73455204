package rest_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// A COMMIT that fails on a full disk fails every request of its group, including refusals, replays
// and "already done" replies that a request derived from uncommitted rows of another one. Each use
// case runs twice in such a group, so that the second request sees the rows of the first. Both must
// fail, and the same request succeeds when the disk has space again.

// twins are two requests that meet in one group.
type twins struct {
	send func(i int) response // i is 0 or 1

	// alone: the second one waits for the first outside the database, or both do, and meets it no
	// more in the group.
	alone bool
}

// same makes twins that are equal but for a key.
func (u user) same(t testing.TB, method, path string, body any) twins {
	return twins{send: func(int) response { return u.send(t, method, path, body) }}
}

// keyed makes twins that carry one key: the second is a replay of the first.
func (u user) keyed(t testing.TB, method, path string, body any) twins {
	return twins{send: func(int) response { return u.send(t, method, path, body, "Idempotency-Key", path) }}
}

// each makes twins that do the same to two things.
func (u user) each(t testing.TB, method string, paths [2]string, body any) twins {
	return twins{send: func(i int) response { return u.send(t, method, paths[i], body) }}
}

func (u user) made(t testing.TB, path string, body any) string {
	t.Helper()
	return u.post(t, path, body).json(t, http.StatusCreated)["id"].(string)
}

// useCases are the routes that write, by their pattern; name is of the case's own.
var useCases = map[string]func(t *testing.T, u user, name string) twins{
	"POST /sessions": func(t *testing.T, u user, _ string) twins {
		return u.same(t, "POST", "/sessions", map[string]any{"name": u.name, "password": password})
	},
	"DELETE /sessions/{id}": func(t *testing.T, u user, _ string) twins {
		u.login(t, u.name)
		all := u.get(t, "/sessions").items(t)
		i := slices.IndexFunc(all, func(s map[string]any) bool { return s["current"] != true })
		return u.same(t, "DELETE", "/sessions/"+all[i]["id"].(string), nil)
	},
	"POST /tokens": func(t *testing.T, u user, name string) twins {
		return u.same(t, "POST", "/tokens", map[string]any{"name": name, "scopes": []string{"read"}})
	},
	"DELETE /tokens/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/tokens/"+u.made(t, "/tokens", map[string]any{"name": name, "scopes": []string{"read"}}), nil)
	},
	"POST /flows/{page}": func(t *testing.T, u user, name string) twins {
		hash := sha256.Sum256([]byte(name))
		page := binary.BigEndian.AppendUint64(hash[:], uint64(u.Clock.Now().Add(time.Minute).UnixMilli()))
		return u.same(t, "POST", "/flows/"+base64.RawURLEncoding.EncodeToString(append(page, "program"...)), map[string]any{})
	},
	"PUT /nodes/{id}/star": func(t *testing.T, u user, name string) twins {
		return u.same(t, "PUT", "/nodes/"+u.folder(t, "/"+name)+"/star", nil)
	},
	"DELETE /nodes/{id}/star": func(t *testing.T, u user, name string) twins {
		node := u.folder(t, "/"+name)
		u.star(t, "PUT", node, 204)
		return u.same(t, "DELETE", "/nodes/"+node+"/star", nil)
	},
	"DELETE /key-conflicts/{id}": func(t *testing.T, u user, name string) twins {
		u.post(t, "/nodes", map[string]any{"path": "/" + name, "type": "folder"}, "Idempotency-Key", name)
		u.post(t, "/nodes", map[string]any{"path": "/another " + name, "type": "folder"}, "Idempotency-Key", name)
		all := u.get(t, "/key-conflicts").items(t)
		return u.same(t, "DELETE", "/key-conflicts/"+all[len(all)-1]["id"].(string), nil)
	},
	"PUT /me/preferences": func(t *testing.T, u user, _ string) twins {
		return u.same(t, "PUT", "/me/preferences", `{"theme":"dark"}`)
	},
	"PUT /me/password": func(t *testing.T, u user, name string) twins {
		other := u.newUser(t, name, 0)
		return other.same(t, "PUT", "/me/password", map[string]any{"current": password, "password": password + "!"})
	},

	"POST /uploads": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/uploads", map[string]any{"path": "/" + name, "size": 5})
	},
	"POST /uploads found": func(t *testing.T, u user, name string) twins {
		return u.same(t, "POST", "/uploads", map[string]any{"path": "/" + name, "size": 5, "fingerprint": name})
	},
	"POST /uploads linked": func(t *testing.T, u user, name string) twins {
		data := append(pattern(1<<20), name...)
		u.put(t, "/"+name, data)
		sum := blake3.Sum256(data)
		in := map[string]any{"path": "/" + name + "2", "size": len(data), "digests": map[string]any{"blake3": hex.EncodeToString(sum[:])}}
		return u.same(t, "POST", "/uploads", in)
	},
	"PATCH /uploads/{id}": func(t *testing.T, u user, name string) twins {
		id := u.made(t, "/uploads", map[string]any{"path": "/" + name, "size": 5})
		second := u.same(t, "PATCH", "/uploads/"+id, map[string]any{"name": name + "2"})
		second.alone = true
		return second
	},
	"DELETE /uploads/{id}": func(t *testing.T, u user, name string) twins {
		id := u.made(t, "/uploads", map[string]any{"path": "/" + name, "size": 5})
		second := u.same(t, "DELETE", "/uploads/"+id, nil)
		second.alone = true
		return second
	},
	"POST /uploads/{id}/complete": func(t *testing.T, u user, name string) twins {
		var paths [2]string
		for i := range paths { // both become the same file
			id := u.made(t, "/uploads", map[string]any{"path": "/" + name, "size": 5})
			u.sendParts(t, id, []byte("bytes"))
			paths[i] = "/uploads/" + id + "/complete"
		}
		return u.each(t, "POST", paths, nil)
	},
	"PUT /uploads/{id}/parts/{n}": func(t *testing.T, u user, name string) twins {
		var paths [2]string
		for i := range paths {
			id := u.made(t, "/uploads", map[string]any{"path": fmt.Sprint("/", name, i), "size": 5})
			paths[i] = "/uploads/" + id + "/parts/0"
		}
		u.Clock.Advance(31 * time.Second)
		u.Fire(t) // parked: it is resumed by the part
		return u.each(t, "PUT", paths, []byte("bytes"))
	},
	"PUT /files/{path}": func(t *testing.T, u user, name string) twins {
		both := u.same(t, "PUT", "/files/"+name+"?conflict=fail", []byte("bytes"))
		both.alone = true // small files of an account that wait are one transaction
		return both
	},
	"PUT /files": func(t *testing.T, u user, name string) twins {
		both := u.same(t, "PUT", "/files?conflict=fail&path=/"+name, []byte("bytes"))
		both.alone = true
		return both
	},
	"PUT /files/{path} by parts": func(t *testing.T, u user, name string) twins {
		return u.same(t, "PUT", "/files/"+name, pattern(partSize+1))
	},

	"POST /nodes": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/nodes", map[string]any{"path": "/" + name, "type": "folder"})
	},
	"POST /nodes without a key": func(t *testing.T, u user, name string) twins {
		return u.same(t, "POST", "/nodes", map[string]any{"path": "/" + name, "type": "folder"})
	},
	"PATCH /nodes/{id}": func(t *testing.T, u user, name string) twins { // two nodes and one name
		paths := [2]string{"/nodes/" + u.folder(t, "/"+name+"0"), "/nodes/" + u.folder(t, "/"+name+"1")}
		return u.each(t, "PATCH", paths, map[string]any{"name": name})
	},
	"DELETE /nodes/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/nodes/"+u.folder(t, "/"+name), nil)
	},
	"DELETE /nodes/{id} for good": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/nodes/"+u.put(t, "/"+name, []byte(name))["id"].(string)+"?permanent=true", nil)
	},
	"POST /nodes/{id}/copy": func(t *testing.T, u user, name string) twins {
		node := u.put(t, "/"+name, []byte(name))["id"].(string)
		return u.keyed(t, "POST", "/nodes/"+node+"/copy", map[string]any{"parent": "root", "name": name + "2"})
	},
	"POST /nodes/{id}/restore": func(t *testing.T, u user, name string) twins {
		node := "/nodes/" + u.folder(t, "/"+name)
		u.send(t, "DELETE", node, nil)
		return u.same(t, "POST", node+"/restore", "{}")
	},
	"POST /nodes/{id}/versions/{v}/restore": func(t *testing.T, u user, name string) twins {
		node := "/nodes/" + u.put(t, "/"+name, []byte(name))["id"].(string)
		old := u.get(t, node+"/versions").items(t)[0]["id"].(string)
		u.put(t, "/"+name, []byte("newer"))
		return u.keyed(t, "POST", node+"/versions/"+old+"/restore", nil)
	},
	"DELETE /trash": func(t *testing.T, u user, name string) twins {
		u.send(t, "DELETE", "/nodes/"+u.folder(t, "/"+name), nil)
		return u.same(t, "DELETE", "/trash", nil)
	},

	"POST /shares": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/shares", map[string]any{"node": u.folder(t, "/"+name)})
	},
	"PATCH /shares/{id}": func(t *testing.T, u user, name string) twins {
		_, made := u.shareOf(t, u.folder(t, "/"+name), nil)
		return u.same(t, "PATCH", "/shares/"+made["id"].(string), map[string]any{"max_downloads": 7})
	},
	"DELETE /shares/{id}": func(t *testing.T, u user, name string) twins {
		_, made := u.shareOf(t, u.folder(t, "/"+name), nil)
		return u.same(t, "DELETE", "/shares/"+made["id"].(string), nil)
	},
	"POST /public/shares/{token}/open": func(t *testing.T, u user, name string) twins { // attempts are counted
		v, _ := u.shareOf(t, u.folder(t, "/"+name), map[string]any{"code": "1234"})
		return u.same(t, "POST", "/public/shares/"+v.token+"/open", map[string]any{"code": "1234"})
	},
	"POST /collects": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/collects", map[string]any{"folder": u.folder(t, "/"+name), "title": name})
	},
	"PATCH /collects/{id}": func(t *testing.T, u user, name string) twins {
		_, id := u.collectInto(t, u.folder(t, "/"+name), nil)
		return u.same(t, "PATCH", "/collects/"+id, map[string]any{"title": "new"})
	},
	"DELETE /collects/{id}": func(t *testing.T, u user, name string) twins {
		_, id := u.collectInto(t, u.folder(t, "/"+name), nil)
		return u.same(t, "DELETE", "/collects/"+id, nil)
	},
	"POST /uploads by a collect link": func(t *testing.T, u user, name string) twins { // its limit takes one of them
		token, _ := u.collectInto(t, u.folder(t, "/"+name), map[string]any{"max_bytes": 6})
		return u.sender(t, token, "bob").each(t, "POST", [2]string{"/uploads", "/uploads"}, map[string]any{"path": "/f", "size": 5, "fingerprint": name})
	},

	"POST /operations": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/operations", u.toTrash(t, name, 5))
	},
	"POST /operations/{id}/cancel": func(t *testing.T, u user, name string) twins {
		return u.same(t, "POST", "/operations/"+u.made(t, "/operations", u.toTrash(t, name, 5))+"/cancel", nil)
	},
	"POST /operations/{id}/retry": func(t *testing.T, u user, _ string) twins {
		in := map[string]any{"kind": "trash", "nodes": []string{drive.NewID[drive.NodeID]().String()}} // which fails
		return u.same(t, "POST", "/operations/"+u.made(t, "/operations", in)+"/retry", nil)
	},
	"POST /operations/{id}/undo": func(t *testing.T, u user, name string) twins {
		return u.same(t, "POST", "/operations/"+u.made(t, "/operations", u.toTrash(t, name, 2))+"/undo", nil)
	},
	"POST /archives": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/archives", map[string]any{"nodes": []string{u.put(t, "/"+name, []byte(name))["id"].(string)}})
	},
	"POST /exports": func(t *testing.T, u user, name string) twins {
		both := u.keyed(t, "POST", "/exports", map[string]any{"nodes": []string{u.put(t, "/"+name, []byte(name))["id"].(string)}})
		both.alone = true // an account makes one list at a time
		return both
	},
	"POST /exports/manifest": func(t *testing.T, u user, name string) twins {
		both := u.keyed(t, "POST", "/exports/manifest?name="+name, []byte("path\n/x.pdf\n"))
		both.alone = true
		return both
	},
	"DELETE /exports/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/exports/"+u.made(t, "/exports", map[string]any{"nodes": []string{u.put(t, "/"+name, []byte(name))["id"].(string)}}), nil)
	},
	"POST /exports/{id}/supplement": func(t *testing.T, u user, name string) twins {
		v := u.post(t, "/exports/manifest?name="+name, []byte("id,path\n1,/missing\n")).json(t, http.StatusCreated)
		u.drain(t)
		one := "/exports/" + v["id"].(string)
		u.put(t, "/"+name, []byte("y"))
		n := u.get(t, one+"/errors").items(t)[0]["n"]
		return u.keyed(t, "POST", one+"/supplement", map[string]any{"mode": "complete", "items": []any{map[string]any{"n": n, "path": "/" + name}}})
	},
	"POST /export-schedules": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/export-schedules", map[string]any{"folder": u.folder(t, "/"+name), "name": name})
	},
	"DELETE /export-schedules/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/export-schedules/"+u.made(t, "/export-schedules", map[string]any{"folder": "root", "name": name}), nil)
	},
	"PUT /sources/{name}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "PUT", "/sources/"+name, map[string]any{"rules": map[string]any{"types": []string{}}})
	},
	"DELETE /sources/{name}": func(t *testing.T, u user, name string) twins {
		u.send(t, "PUT", "/sources/"+name, map[string]any{"rules": map[string]any{"types": []string{}}})
		return u.same(t, "DELETE", "/sources/"+name, nil)
	},
	"POST /documents/{id}/settle": func(t *testing.T, u user, name string) twins {
		u = u.newUser(t, name, 0)
		d, other := invoicetest.New(1), invoicetest.New(1)
		other.Buyer.Name = "somebody else"
		u.takeIn(t, d)
		u.takeIn(t, other)
		dispute := u.get(t, "/conflicts").items(t)[0]
		id := dispute["document"].(map[string]any)["id"].(string)
		return u.same(t, "POST", "/documents/"+id+"/settle", map[string]any{"keep": "new"})
	},
	"POST /conflicts/settle": func(t *testing.T, u user, name string) twins {
		u = u.newUser(t, name, 0)
		d, other := invoicetest.New(1), invoicetest.New(1)
		other.Buyer.Name = "somebody else"
		u.takeIn(t, d)
		u.takeIn(t, other)
		return u.same(t, "POST", "/conflicts/settle", map[string]any{"keep": "new"})
	},
	"POST /bundles/{id}/accept": func(t *testing.T, u user, name string) twins {
		u = u.newUser(t, name, 0)
		d := invoicetest.New(1)
		d.Buyer.Name = ""
		u.takeIn(t, invoicetest.New(2), d)
		r := u.get(t, "/rejections").items(t)[0]
		return u.same(t, "POST", "/bundles/"+r["bundle"].(string)+"/accept", map[string]any{"place": r["place"], "reason": "known"})
	},

	"POST /webhooks": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/webhooks", map[string]any{"url": "https://example.org/" + name})
	},
	"PATCH /webhooks/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "PATCH", "/webhooks/"+u.hook(t, name), map[string]any{"name": name + "2"})
	},
	"POST /webhooks/{id}/secret": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/webhooks/"+u.hook(t, name)+"/secret", map[string]any{"keep_for": 60})
	},
	"DELETE /webhooks/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/webhooks/"+u.hook(t, name), nil)
	},
	"POST /webhooks/{id}/replay": func(t *testing.T, u user, name string) twins {
		return u.same(t, "POST", "/webhooks/"+u.hook(t, name)+"/replay", map[string]any{"since": "2026-11-20T00:00:00Z"})
	},
	"POST /notices/read": func(t *testing.T, u user, name string) twins {
		bob := u.newUser(t, name, 0)
		u.give(t, u.folder(t, "/"+name), bob.name, "viewer")
		u.tell(t)
		return bob.same(t, "POST", "/notices/read", map[string]any{"ids": []any{bob.get(t, "/notices").items(t)[0]["id"]}})
	},
	"PATCH /notices/settings": func(t *testing.T, u user, _ string) twins {
		return u.same(t, "PATCH", "/notices/settings", map[string]any{"language": "zh-CN", "channels": map[string]any{"share": "off"}})
	},
	"POST /notices/settings/confirm": func(t *testing.T, u user, name string) twins {
		u = u.newUser(t, name, 0)
		return u.same(t, "POST", "/notices/settings/confirm", map[string]any{"code": u.mailCode(t, name+"@example.org")})
	},
	"POST /admin/spaces": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/admin/spaces", map[string]any{"name": name})
	},
	"PATCH /admin/spaces/{id}": func(t *testing.T, u user, name string) twins {
		id := u.made(t, "/admin/spaces", map[string]any{"name": name})
		return u.same(t, "PATCH", "/admin/spaces/"+id, map[string]any{"total": 100})
	},
	"DELETE /admin/spaces/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/admin/spaces/"+u.made(t, "/admin/spaces", map[string]any{"name": name}), nil)
	},
	"PATCH /spaces/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "PATCH", "/spaces/"+u.made(t, "/admin/spaces", map[string]any{"name": name}), map[string]any{"name": name + "2"})
	},
	"POST /nodes/{id}/grants": func(t *testing.T, u user, name string) twins {
		other := u.newUser(t, name, 0)
		return u.keyed(t, "POST", "/nodes/"+u.folder(t, "/"+name)+"/grants", map[string]any{"kind": "user", "principal": other.id, "role": "viewer"})
	},
	"PATCH /shared-with-me/{id}": func(t *testing.T, u user, name string) twins {
		other := u.newUser(t, name, 0)
		node := other.folder(t, "/"+name)
		other.give(t, node, u.name, "viewer")
		return u.same(t, "PATCH", "/shared-with-me/"+node, map[string]any{"hidden": true})
	},
	"DELETE /nodes/{id}/grants/{principal}": func(t *testing.T, u user, name string) twins {
		other, node := u.newUser(t, name, 0), u.folder(t, "/"+name)
		u.give(t, node, other.id, "viewer")
		return u.same(t, "DELETE", "/nodes/"+node+"/grants/"+other.id, nil)
	},
	"POST /admin/groups": func(t *testing.T, u user, name string) twins {
		return u.keyed(t, "POST", "/admin/groups", map[string]any{"name": name})
	},
	"PATCH /admin/groups/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "PATCH", "/admin/groups/"+u.made(t, "/admin/groups", map[string]any{"name": name}), map[string]any{"name": name + "2"})
	},
	"DELETE /admin/groups/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/admin/groups/"+u.made(t, "/admin/groups", map[string]any{"name": name}), nil)
	},
	"PUT /admin/groups/{id}/members/{user}": func(t *testing.T, u user, name string) twins {
		other := u.newUser(t, name, 0)
		return u.same(t, "PUT", "/admin/groups/"+u.made(t, "/admin/groups", map[string]any{"name": name})+"/members/"+other.id, nil)
	},
	"DELETE /admin/groups/{id}/members/{user}": func(t *testing.T, u user, name string) twins {
		at := "/admin/groups/" + u.made(t, "/admin/groups", map[string]any{"name": name}) + "/members/" + u.newUser(t, name, 0).id
		u.send(t, "PUT", at, nil)
		return u.same(t, "DELETE", at, nil)
	},

	"POST /admin/users/{id}/handover": func(t *testing.T, u user, name string) twins {
		from := u.made(t, "/admin/users", map[string]any{"name": name, "password": password})
		to := u.made(t, "/admin/users", map[string]any{"name": name + "2", "password": password})
		return u.keyed(t, "POST", "/admin/users/"+from+"/handover", map[string]any{"to_user": to})
	},
	"POST /admin/users": func(t *testing.T, u user, name string) twins {
		return u.same(t, "POST", "/admin/users", map[string]any{"name": name, "password": password})
	},
	"PATCH /admin/users/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "PATCH", "/admin/users/"+u.newUser(t, name, 0).id, `{"total":100}`)
	},
	"DELETE /admin/users/{id}": func(t *testing.T, u user, name string) twins {
		return u.same(t, "DELETE", "/admin/users/"+u.newUser(t, name, 0).id, nil)
	},
	"POST /admin/uploads/reset": func(t *testing.T, u user, name string) twins {
		other := u.newUser(t, name, 0)
		other.made(t, "/uploads", map[string]any{"path": "/x", "size": 10})
		account := other.get(t, "/me").json(t, 200)["account"].(map[string]any)["id"]
		all := u.same(t, "POST", "/admin/uploads/reset", map[string]any{"account_id": account})
		all.alone = true
		return all
	},
	"PUT /admin/settings/{name}": func(t *testing.T, u user, _ string) twins {
		return u.same(t, "PUT", "/admin/settings/export-hosts", map[string]any{"value": "docs.example.org"})
	},
	"DELETE /admin/settings/{name}": func(t *testing.T, u user, _ string) twins {
		u.send(t, "PUT", "/admin/settings/instant-scope", map[string]any{"value": "user"}).json(t, http.StatusOK)
		return u.same(t, "DELETE", "/admin/settings/instant-scope", nil)
	},
	"POST /admin/dead-letters/{id}/replay": func(t *testing.T, u user, _ string) twins {
		return u.same(t, "POST", "/admin/dead-letters/"+u.letter(t)+"/replay", nil)
	},
	"POST /admin/dead-letters/replay": func(t *testing.T, u user, _ string) twins {
		return u.same(t, "POST", "/admin/dead-letters/replay", map[string]any{"ids": []string{u.letter(t)}})
	},
	"DELETE /admin/dead-letters/{id}": func(t *testing.T, u user, _ string) twins {
		return u.same(t, "DELETE", "/admin/dead-letters/"+u.letter(t), nil)
	},
}

// noUseCases are routes that change something by their method, and write nothing in a group of the
// stack's database; why.
var noUseCases = map[string]string{
	"POST /sign-on":                                 "what it hands out is stored nowhere",
	"POST /sign-on/finish":                          "the stack has no identity provider; package signon fails its commits",
	"POST /sign-on/logout":                          "as above",
	"POST /me/sign-on":                              "what it hands out is stored nowhere",
	"PUT /me/sign-on":                               "the stack has no identity provider; package signon fails its commits",
	"POST /me/sign-on/end":                          "as above",
	"DELETE /admin/users/{id}/sign-on":              "as above",
	"POST /prepare":                                 "what it hands out is stored nowhere",
	"POST /uploads/{id}/proof":                      "its transactions are those of a link and of a refusal: internal/usecase/upload has them",
	"DELETE /uploads/{id}/parts/{n}":                "a part is an entry in the journal",
	"POST /nodes/{id}/links":                        "a link is signed, not stored",
	"POST /exports/{id}/links":                      "a link is signed, not stored",
	"POST /public/collects/{token}/open":            "what a sender gets is signed, not stored",
	"POST /exports/{id}/files":                      "the stack has no drive that zips are written to",
	"POST /batch":                                   "TestBatchesMatchModelUnderFaults of package batch fails its commits",
	"POST /batch/contents":                          "it reads",
	"POST /bundles/{id}/retry":                      "it is work for the intake, which tells nobody anything",
	"POST /admin/migration":                         "the stack has no migration; these rows are in both databases",
	"POST /admin/migration/advance":                 "as above",
	"POST /admin/migration/percent":                 "as above",
	"POST /admin/migration/pause":                   "as above",
	"POST /admin/migration/resume":                  "as above",
	"POST /admin/migration/rollback":                "as above",
	"POST /admin/migration/finish":                  "as above",
	"POST /admin/migration/drop":                    "as above",
	"POST /admin/migration/drop-old":                "as above",
	"POST /admin/migration/rate":                    "as above",
	"POST /admin/migration/verify":                  "as above",
	"POST /admin/migration/mismatches/{id}/explain": "as above",
}

func TestEveryUseCaseThatWritesIsTried(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for name := range useCases {
		words := strings.Fields(name)
		tried[words[0]+" "+words[1]] = true
	}
	for path, methods := range newStack(t, uploadtest.Options{}).addresses(t) {
		for _, method := range methods {
			route := method + " " + strings.TrimPrefix(path, "/api/v1")
			if _, why := noUseCases[route]; method != "GET" && method != "HEAD" && !why && !tried[route] {
				t.Errorf("%s writes, and nobody tries what becomes of it when its group cannot be committed: add it to useCases, or with a reason to noUseCases", route)
			}
		}
	}
}

func TestFailedGroupCommitChangesNothing(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	s := newStack(t, uploadtest.Options{DB: sqldb.Options{Connector: faults.Connector}})
	boss, n := s.admin(t), 0
	for route, prepare := range useCases {
		n++
		t.Run(route, func(t *testing.T) {
			both := prepare(t, boss, fmt.Sprintf("case-%d-", n)) // cases add to their name: 2 must not become 22
			writes := 2
			if both.alone {
				writes = 1
			}
			defer faults.Clear()
			faults.FailAll(sqldbtest.Commit, drive.Fail(drive.DiskFull))
			var got [2]response
			sqldbtest.ConcurrentlyPartly(t, s.DB, 2, writes, func(i int) { got[i] = both.send(i) })
			faults.Clear()
			for _, r := range got {
				r.problem(t, drive.DiskFull, nil)
			}
			if r := both.send(0); r.StatusCode >= 300 || r.Header.Get("Idempotent-Replayed") != "" {
				t.Errorf("there is room again, and the answer is %s, replayed %q", r, r.Header.Get("Idempotent-Replayed"))
			}
		})
	}
	if left := s.Staged(t); len(left) > 0 && !sqldbtest.OnMySQL() { // a server may have done such a COMMIT: fsck decides
		t.Errorf("staged, and of no upload: %v", left)
	}
}

// letter creates a dead letter and returns its id.
func (u user) letter(t testing.TB) string {
	t.Helper()
	err := u.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		r, err := stream.New(stream.TopicUploads, stream.UploadDone, drive.NewID[drive.AccountID](), "x", nil)
		if err != nil {
			return err
		}
		return u.letters.Add(ctx, tx, "indexer", r, 5, errors.New("refused"))
	})
	if err != nil {
		t.Fatal(err)
	}
	all := u.get(t, "/admin/dead-letters").items(t)
	return all[len(all)-1]["id"].(string)
}

// toTrash is the request to put n new files into the trash.
func (u user) toTrash(t *testing.T, name string, n int) map[string]any {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, u.put(t, fmt.Sprint("/", name, i), []byte(name))["id"].(string))
	}
	return map[string]any{"kind": "trash", "nodes": ids}
}

// hook creates a webhook.
func (u user) hook(t *testing.T, name string) string {
	t.Helper()
	return u.post(t, "/webhooks", map[string]any{"url": "https://example.org/" + name}).json(t, http.StatusCreated)["id"].(string)
}
