package server

import "testing"

func TestTokensAreNotLogged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ route, path, want string }{
		{routePages, "/s/SECRET", "/s/..."},
		{routePages, "/", "/"},
		{routePages, "/favicon.svg", "/favicon.svg"},
		{"GET /api/v1/public/shares/{token}", "/api/v1/public/shares/SECRET", "/api/v1/public/shares/{token}"},
		{"GET /api/v1/nodes/{id}", "/api/v1/nodes/17", "/api/v1/nodes/17"},
		{"GET /api/v1/admin/timers/{key...}", "/api/v1/admin/timers/park/17", "/api/v1/admin/timers/park/17"},
		{"POST /api/v1/flows/{page}", "/api/v1/flows/SECRET", "/api/v1/flows/{page}"},
		{"GET /api/v1/things/{id}/{new...}", "/api/v1/things/17/SECRET", "/api/v1/things/{id}/{new...}"},
		{"", "/s/SECRET", "/s/..."},
	} {
		if got := pathForLog(c.route, c.path); got != c.want {
			t.Errorf("%s under %q is logged as %s, want %s", c.path, c.route, got, c.want)
		}
	}
}
