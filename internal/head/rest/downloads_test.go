package rest_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// fetched returns the logged downloads, the oldest first: name, actor, kind and count.
func (u user) fetched(t testing.TB, query string) (all []string) {
	t.Helper()
	if err := u.downloads.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, it := range u.get(t, "/activity/export?type=download"+query).exported(t) {
		who := "nobody"
		if by, ok := it["by"].(map[string]any); ok {
			who = by["name"].(string)
		}
		all = append(all, fmt.Sprintf("%v by %v, %v, %v", it["name"], who, it["head"], it["data"].(map[string]any)["times"]))
	}
	return all
}

// Downloads are logged with their actor and count, whichever route they use. Resumed reads,
// revalidations and thumbnails are not logged.
func TestDownloadsAreLogged(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	f := ann.put(t, "/Plans/a.txt", []byte("a file"))
	g := ann.put(t, "/Plans/b.txt", []byte("another"))
	folder := ann.at(t, "/Plans")
	ann.give(t, folder, "bob", "viewer")
	path := fmt.Sprintf("/nodes/%v/content", f["id"])
	tag := ann.get(t, path, "Range", "bytes=3-").Header.Get("ETag")
	ann.get(t, path, "If-None-Match", tag)
	ann.send(t, http.MethodHead, path, nil)
	ann.get(t, path, "Range", "bytes=100-")
	if got := ann.fetched(t, ""); got != nil {
		t.Errorf("what is no download is told as %q", got)
	}
	ann.get(t, path)
	bob.get(t, path)
	bob.get(t, path, "Range", "bytes=0-1")
	bob.post(t, "/batch/contents", map[string]any{"nodes": []any{f["id"], g["id"]}})
	if got := bob.get(t, "/activity?type=download").items(t); len(got) != 0 {
		t.Errorf("what bob downloads from ann is told in bob's own drive as %v", got)
	}
	want := []string{"a.txt by ann, api, 1", "a.txt by bob, api, 2"}
	got := ann.fetched(t, "")
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := ann.get(t, "/activity").items(t); slices.ContainsFunc(got, func(it map[string]any) bool { return it["type"] == "download.begun" }) {
		t.Error("downloads are listed where nobody has asked for them")
	}
	// A user who may see a node's activity does not necessarily see its downloads.
	if got := bob.get(t, fmt.Sprintf("/activity?type=download&node=%v", f["id"])).items(t); len(got) != 0 {
		t.Errorf("a guest is told of %v", got)
	}

	// Within the hour it is one entry; then the next one.
	for range 2 {
		ann.get(t, path)
	}
	ann.post(t, "/batch/contents", map[string]any{"nodes": []any{f["id"], g["id"]}})
	if got := ann.fetched(t, ""); len(got) != 3 || got[2] != "b.txt by ann, api, 1" {
		t.Errorf("soon after it there is %q", got)
	}
	s.Clock.Advance(61 * time.Minute)
	if got := ann.fetched(t, ""); len(got) != 4 || got[3] != "a.txt by ann, api, 3" {
		t.Errorf("an hour later there is %q", got)
	}
}

// Downloads by links and as zips are logged too, without an actor if the visitor is anonymous.
func TestLinkAndZipDownloadsAreLogged(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", 0)
	f := ann.put(t, "/Plans/a.txt", []byte("a file"))
	folder := ann.at(t, "/Plans")
	share, _ := ann.shareOf(t, folder, nil)
	share = share.open(t, "")
	zip := s.do(t, request{method: "GET", path: "/api/v1/public/shares/" + share.token + "/nodes/root/zip?access=" + share.access})
	one := s.do(t, request{method: "GET", path: "/api/v1/public/shares/" + share.token + "/nodes/" + f["id"].(string) + "/content?access=" + share.access})
	link := ann.post(t, fmt.Sprintf("/nodes/%v/links", f["id"]), `{"expires_in":60}`).json(t, http.StatusCreated)["url"].(string)
	signed := s.do(t, request{method: "GET", path: link[len("http://example.com"):]})
	own := ann.get(t, "/nodes/"+folder+"/archive")
	for _, r := range []response{zip, one, signed, own} {
		if r.StatusCode != http.StatusOK {
			t.Fatal(r)
		}
	}
	got := ann.fetched(t, "")
	slices.Sort(got)
	if d := cmp.Diff([]string{"Plans by ann, api, 1", "Plans by nobody, link, 1", "a.txt by nobody, link, 2"}, got); d != "" {
		t.Error(d)
	}
	for _, it := range ann.get(t, "/activity?type=download").items(t) {
		if it["address"] != "192.0.2.1" || it["node_id"] == nil {
			t.Errorf("it is told as %v", it)
		}
	}
}
