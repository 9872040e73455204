package columns

import (
	"math/rand/v2"
	"strings"
)

func faultDeeds() []deed { return []deed{{"bad request", 8, badRequest}} }

// badRequests are wrong in every way that a request can be, whatever the state is.
func badRequests() (all []request) {
	post := func(path string, bodies ...string) {
		for _, b := range bodies {
			all = append(all, request{"POST", path, b, nil})
		}
	}
	post("/uploads", "", "[]", "null", `{"size":1`, `{"path":"/x","size":1} x`, `{"path":"/x","size":1,"sizes":1}`, `{"path":"/x","size":1,"size":1}`,
		"{\"path\":\"/\xff\",\"size\":1}", `{"path":"/x","size":"1"}`, `{"path":"/x"}`, `{"size":1}`, `{"path":"/","size":1}`, `{"path":"x","size":1}`,
		`{"path":"/a/../b","size":1}`, `{"path":"/a//b","size":1}`, `{"path":"/x","parent":"root","size":1}`, `{"parent":"root","size":1}`,
		`{"path":"/x","size":9223372036854775808}`, `{"path":"/x","size":1,"digests":{"sha1":"00"}}`, `{"path":"/x","size":1,"digests":{"md5":"00"}}`,
		`{"path":"/x","size":1,"fingerprint":"`+strings.Repeat("f", 129)+`"}`, `{"path":"/x","size":1,"conflict":"overwrite"}`,
		`{"path":"/x","size":1,"mtime":"yesterday"}`, `{"path":"/x","size":1,"mime":"text"}`, `{"path":"/`+strings.Repeat("x", 1<<20)+`","size":1}`,
		`{"path":"`+strings.Repeat("/a", 129)+`","size":1,"parents":true}`, `{"path":"`+strings.Repeat("/"+strings.Repeat("y", 250), 17)+`","size":1}`)
	post("/nodes", `{"path":"/x"}`, `{"path":"/x","type":"file"}`, `{"path":"/x","type":"folder","conflict":"replace"}`, `{"parent":"root","name":"a/b","type":"folder"}`,
		`{"parent":"root","name":"..","type":"folder"}`, `{"parent":"nothing","name":"x","type":"folder"}`, `{"parent":"root","name":"\u0000","type":"folder"}`)
	post("/sessions", `{}`, `{"name":"x"}`, `{"name":1,"password":"x"}`)
	post("/nodes/root/copy", `{}`, `{"parent":"root"}`)
	post("/nodes/root/links", `{"expires_in":10}`)
	post("/nodes/root/restore", `{"parent":7}`)
	for _, path := range []string{
		"/nodes", "/nodes?path=x", "/nodes?path=%2Fx&path=%2Fy", "/nodes?paths=%2Fx", "/nodes/root?x=1", "/nodes/root/content", "/nodes/root/versions",
		"/nodes/root/children?limit=0", "/nodes/root/children?limit=1001", "/nodes/root/children?limit=x", "/nodes/root/children?cursor=x",
		"/nodes/root/children?sort=age", "/nodes/root/children?cursor=", "/trash?cursor=x", "/uploads?cursor=x", "/uploads?cursor=0198c0de-0000-7000-8000-00000000000g",
		"/uploads/x", "/uploads/0198C0DE-0000-7000-8000-000000000000", "/links", "/links?token=x", "/operations/x", "/operations/0198c0de-0000-7000-8000-000000000000",
		"/nothing", "/admin/users", "/admin/status", "/tokens?cursor=x", "/sessions?limit=-1", "/changes?limit=1&after=%00",
	} {
		all = append(all, request{"GET", path, nil, nil})
	}
	return append(
		all,
		request{"DELETE", "/nodes/root", nil, nil},
		request{"DELETE", "/nodes/root?permanent=maybe", nil, nil},
		request{"PATCH", "/nodes/root", `{"name":"x"}`, nil},
		request{"PATCH", "/nodes/root", `{}`, nil},
		request{"POST", "/me", nil, nil},
		request{"PATCH", "/uploads", nil, nil},
		request{"POST", "/nodes", []byte(`{"type":"folder","path":"/x"}`), []string{"Content-Type", "text/plain"}},
		request{"POST", "/nodes", `{"type":"folder","path":"/x"}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}},
		request{"POST", "/nodes", `{"type":"folder","path":"/x"}`, []string{"Idempotency-Key", "sp ace"}},
		request{"POST", "/nodes", `{"type":"folder","path":"/x"}`, []string{"Idempotency-Key", ""}},
		request{"PUT", "/files/", []byte("x"), nil},
		request{"PUT", "/files/a//b", []byte("x"), nil},
		request{"PUT", "/files/%2e%2e/b", []byte("x"), nil},
		request{"PUT", "/files/a%2Fb", []byte("x"), nil},
		request{"PUT", "/files/%ff", []byte("x"), nil},
		request{"PUT", "/files/x?conflict=maybe", []byte("x"), nil},
		request{"PUT", "/files/x", []byte("x"), []string{"X-Mtime", "now"}},
		request{"PUT", "/files/x", []byte("x"), []string{"X-Mtime", "999999999999999999"}},
		request{"PUT", "/files/x", []byte("x"), []string{"Content-Encoding", "gzip"}},
		request{"PUT", "/files/x", []byte("x"), []string{"Content-Digest", "sha-256=x"}},
		request{"PUT", "/files/x", []byte("x"), []string{"Repr-Digest", "sha-256=:AA==:"}},
		request{"PUT", "/files/x", []byte("x"), []string{"If-Match", "x"}},
		request{"PUT", "/uploads/0198c0de-0000-7000-8000-000000000000/parts/00", []byte("x"), nil},
		request{"PUT", "/uploads/0198c0de-0000-7000-8000-000000000000/parts/x", []byte("x"), nil},
		request{"GET", "/nodes/root", nil, []string{"Authorization", "Basic eDp5"}},
		request{"GET", "/nodes/root", nil, []string{"Authorization", "Bearer x"}},
		request{"GET", "/nodes/none", nil, []string{"Accept-Language", "zh-CN"}},
	)
}

func badRequest(a *actor, p *person, r *rand.Rand) {
	all := badRequests()
	for range 4 {
		a.do(p, pick(r, all))
	}
}
