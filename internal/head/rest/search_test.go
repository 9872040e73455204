package rest_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func paths(items []map[string]any) []string {
	all := []string{}
	for _, item := range items {
		all = append(all, item["path"].(string))
	}
	return all
}

func TestSearchByNameAndWhatAListShows(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	u.put(t, "/photos/summer/Beach%2050%25.JPG", make([]byte, 1000))
	u.put(t, "/photos/beach.png", make([]byte, 2000))
	u.put(t, "/notes/beach.txt", make([]byte, 10))
	other.put(t, "/beach-of-bob.jpg", []byte("x"))
	for query, want := range map[string][]string{
		"q=BEACH":                            {"/photos/summer/Beach 50%.JPG", "/photos/beach.png", "/notes/beach.txt"},
		"q=beach&in=/photos":                 {"/photos/summer/Beach 50%.JPG", "/photos/beach.png"},
		"q=50%25":                            {"/photos/summer/Beach 50%.JPG"},
		"q=%25":                              {"/photos/summer/Beach 50%.JPG"},
		"ext=jpg,.PNG":                       {"/photos/summer/Beach 50%.JPG", "/photos/beach.png"},
		"type=folder&q=summer":               {"/photos/summer"},
		"min_size=1000&max_size=1999":        {"/photos/summer/Beach 50%.JPG"},
		"q=beach&after=2001-01-01T00:00Z":    nil,
		"q=beach&after=2100-01-01T00:00:00Z": {},
		"q=beach&before=2100-01-01T00:00:00Z&type=file&limit=1000": {"/photos/summer/Beach 50%.JPG", "/photos/beach.png", "/notes/beach.txt"},
	} {
		got := u.get(t, "/search?"+query)
		if want == nil {
			got.problem(t, drive.BadRequest, map[string]any{"field": "after", "reason": "malformed"})
			continue
		}
		if diff := cmp.Diff(want, paths(got.items(t))); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	first := u.get(t, "/search?q=beach&limit=2").json(t, http.StatusOK)
	next := u.get(t, "/search?q=beach&limit=2&cursor="+url.QueryEscape(first["next_cursor"].(string)))
	if got := paths(next.items(t)); len(got) != 1 || got[0] != "/notes/beach.txt" {
		t.Errorf("the second page is %q", got)
	}
	if node := u.get(t, "/search?q=notes/").items(t); len(node) != 0 {
		t.Errorf("a slash found %v", node)
	}
	if got := u.get(t, "/search?q=beach.txt").items(t)[0]; len(got["digests"].(map[string]any)) == 0 || got["size"] != float64(10) {
		t.Errorf("found %v", got)
	}
	u.get(t, "/search?q=beach&in=/nowhere").problem(t, drive.NotFound, nil)
	u.get(t, "/search?q=beach&in=/notes/beach.txt").problem(t, drive.BadRequest, map[string]any{"field": "in"})
	u.get(t, "/search?q=x&in=photos").problem(t, drive.BadName, nil)
	u.get(t, "/search?ext=,").problem(t, drive.BadRequest, map[string]any{"field": "ext"})
	u.get(t, "/search?q=").problem(t, drive.BadRequest, map[string]any{"field": "q"})
}
