package memory

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/history"
)

// crowdBound limits the server's resident memory under many idle connections, in bytes. See
// docs/performance.md for the measured values.
const crowdBound = 300 * mib

// TestACrowdFits has thousands who download and do not read, beside uploads that stall, zips and
// long lists.
func TestACrowdFits(t *testing.T) {
	t.Parallel()
	depth.Normal(t)
	s := newStage(t)
	downloads, uploads := depth.Pick(60, 600, 3_000), depth.Pick(8, 60, 300)
	zips, lists, children := depth.Pick(4, 20, 100), depth.Pick(2, 6, 30), depth.Pick(100, 1_000, 10_000)

	owner := s.user("crowd", 0)
	folder := s.folder(owner, "root", "shared")
	owner.Put(s, "/shared/large", history.Content{Seed: 9, Size: 16 * mib})
	zip := s.share(owner, folder)
	file := strings.TrimSuffix(strings.Replace(zip, "/nodes/root/zip", "/nodes/"+owner.Node(s, "/shared/large")["id"].(string)+"/content", 1), "/")
	many := s.folder(owner, "root", "many")
	s.batch(children, "/many")
	var open []string
	for n := range (uploads + inFlight - 2) / (inFlight - 1) {
		doc := s.user("sends", n).Post(s, "/uploads", map[string]any{"path": "/large", "size": 64 * 8 * mib, "part_size": 8 * mib})
		open = append(open, doc.JSON(s, http.StatusCreated)["id"].(string))
	}
	s.fresh()

	h := new(held)
	defer h.close()
	from := func(i int) string { return fmt.Sprintf("127.0.1.%d", 1+i%60) }
	look := func(what string) {
		s.calm()
		p := s.watch.read()
		t.Logf("%s: %s", what, p)
		if p.server > crowdBound {
			t.Errorf("%s: %s", what, p)
		}
	}
	look("nobody")
	each(downloads, func(i int) { h.open(s, from(i), head("GET", file, ""), nil) })
	look(fmt.Sprintf("%d downloads", downloads))
	half := make([]byte, 4*mib)
	each(uploads, func(i int) {
		n := i % len(open)
		path := fmt.Sprintf("/api/v1/uploads/%s/parts/%d", open[n], i/len(open))
		h.open(s, from(i), head("PUT", path, s.user("sends", n).Token, fmt.Sprintf("Content-Length: %d", 8*mib)), half)
	})
	look(fmt.Sprintf("and %d uploads", uploads))
	each(zips, func(i int) { h.open(s, fmt.Sprintf("127.0.2.%d", 1+i), head("GET", zip, ""), nil) })
	look(fmt.Sprintf("and %d zips", zips))
	each(lists, func(int) {
		for at := "/nodes/" + many + "/children?limit=1000"; ; {
			page := s.insist(owner, "GET", at, nil).JSON(s, http.StatusOK)
			next, _ := page["next_cursor"].(string)
			if next == "" {
				return
			}
			at = "/nodes/" + many + "/children?limit=1000&cursor=" + next
		}
	})
	look(fmt.Sprintf("and %d lists of %d", lists, children))
}

// batch makes n files of a byte in a folder of the first of the crowd.
func (s *stage) batch(n int, folder string) {
	s.Helper()
	const most = 1_000 // items of a batch
	for at := 0; at < n; at += most {
		var b strings.Builder
		for i := at; i < min(n, at+most); i++ {
			fmt.Fprintf(&b, `{"n":%d,"op":"put","path":"%s/%06d%s","size":1}`+"\nx", i-at, folder, i, strings.Repeat("n", 100))
		}
		r := s.user("crowd", 0).Do(s, "POST", "/batch", []byte(b.String()), "Content-Type", "application/vnd.smartdrive.batch")
		if r.StatusCode != http.StatusOK || strings.Contains(string(r.Bytes), `"problem"`) {
			s.Fatalf("a batch: %.500s", r)
		}
	}
}
