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
		{"", "/s/SECRET", "/s/..."},
	} {
		if got := loggable(c.route, c.path); got != c.want {
			t.Errorf("%s under %q is logged as %s, want %s", c.path, c.route, got, c.want)
		}
	}
}
