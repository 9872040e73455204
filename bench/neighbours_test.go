//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	noisyRequests = 31     // concurrent requests of the noisy account
	noisyNodes    = 50_000 // in its large folder
	noisyPictures = 64     // with distinct content
	quietSamples  = 120    // of each request of the neighbour
	quietLeast    = 50.0   // ms that a request of the neighbour may always take
	quietFactor   = 3      // limit for the slowdown of the neighbour's p99
	quietTime     = 5 * time.Second
)

// BenchmarkNeighbours measures how one account, or one visitor, slows down another account: 31
// requests of one route are always in flight, while the other account lists a folder, reads /me,
// creates folders and stores small files, one request at a time. Goal for each p99: at most three
// times the p99 without load, or 50 ms. Select routes with -bench 'Neighbours/zip'.
func BenchmarkNeighbours(b *testing.B) {
	made := b.TempDir()
	s := startReal(b, made, neighbourFlags...)
	n, quiet := newNoisy(b, s), newQuiet(b, s)
	s.stop(b)
	rows := [][]any{{"31 requests at a time of", "answers/s", "list: p50, p99 before > during", "/me", "mkdir", "PUT", "met"}}
	for _, r := range n.routes() {
		b.Run(strings.ReplaceAll(r.name, " ", "-"), func(b *testing.B) {
			for b.Loop() {
				stop := n.restart(b, made, quiet)
				quiet.measure(b) // warm-up
				before := quiet.measure(b)
				end := n.attack(b, r)
				during := quiet.measure(b)
				rate, statuses := end()
				rows = append(rows, r.row(before, during, rate, statuses))
				stop()
			}
		})
	}
	table(b, "a neighbour of a noisy account, ms", rows...)
}

var neighbourFlags = []string{"--webhook-addresses", "any"}

// restart starts a server on a copy of the prepared data, so that the background work of one route
// does not affect the next.
func (n *noisy) restart(b *testing.B, made string, q *quiet) (stop func()) {
	b.Helper()
	data := filepath.Join(b.TempDir(), "data")
	if out, err := exec.Command("cp", "-a", made, data).CombinedOutput(); err != nil {
		b.Fatalf("copy the data: %v\n%s", err, out)
	}
	s, _ := launch(b, data, neighbourFlags...)
	n.url, n.visitor.url, q.url = s.url, s.url, s.url
	q.client.CloseIdleConnections()
	return func() { _, _ = s.proc.Stop(20 * time.Second); s.proc = nil }
}

// quiet is the neighbour that is measured.
type quiet struct {
	*server
	client *http.Client
	folder string
	n      int
}

func newQuiet(b *testing.B, s *server) *quiet {
	q := &quiet{server: s.user(b, "quiet"), client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	q.folder = q.mkdir(b, "/list")
	for i := range 100 {
		q.mkdir(b, fmt.Sprintf("/list/%d", i))
	}
	q.mkdir(b, "/made")
	return q
}

// mkdir creates a folder and returns its id.
func (s *server) mkdir(b *testing.B, path string) string {
	b.Helper()
	var node struct{ ID string }
	s.call(b, "POST", "/nodes", map[string]any{"path": path, "type": "folder"}, &node)
	return node.ID
}

// measure sends the neighbour's four requests in turn and returns their durations in ms.
func (q *quiet) measure(b *testing.B) (took [4]sample) {
	b.Helper()
	for start := time.Now(); len(took[0]) < quietSamples && (time.Since(start) < quietTime || len(took[0]) < 8); {
		q.n++
		for i, do := range []func() *http.Request{
			func() *http.Request { return q.request("GET", "/nodes/"+q.folder+"/children", nil) },
			func() *http.Request { return q.request("GET", "/me", nil) },
			func() *http.Request {
				return q.request("POST", "/nodes", map[string]any{"path": fmt.Sprintf("/made/%d", q.n), "type": "folder"})
			},
			func() *http.Request {
				req := q.request("PUT", "/files/made/file", nil)
				req.Body, req.ContentLength = io.NopCloser(strings.NewReader(fmt.Sprint(q.n))), int64(len(fmt.Sprint(q.n)))
				return req
			},
		} {
			req, began := do(), time.Now()
			resp, err := q.client.Do(req)
			must(b, err)
			_, err = io.Copy(io.Discard, resp.Body)
			must(b, err)
			_ = resp.Body.Close()
			took[i].add(ms(time.Since(began)))
			if resp.StatusCode >= 300 {
				b.Errorf("the neighbour's %s %s was answered %s", req.Method, req.URL.Path, resp.Status)
			}
		}
	}
	return took
}

// request returns a request of the native API. body is sent as JSON, []byte unchanged, nil not at
// all.
func (s *server) request(method, path string, body any) *http.Request {
	raw, ok := body.([]byte)
	if !ok && body != nil {
		raw, _ = json.Marshal(body)
	}
	if !strings.HasPrefix(path, "/dav/") && !strings.HasPrefix(path, "/remote.php/") {
		path = "/api/v1" + path
	}
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	switch {
	case strings.HasSuffix(path, "/batch"):
		req.Header.Set("Content-Type", "application/vnd.smartdrive.batch")
	case !ok: // the type follows from the file name
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	return req
}

func (s sample) p99() float64 { return slices.Sorted(slices.Values(s))[len(s)*99/100] }

// noisy is the account under load, with the resources that it requests.
type noisy struct {
	*server
	visitor                 *server
	big, copied, picturesIn string
	files, pictures         []string
	share, coded, access    string
	hook, event             string
	count                   atomic.Int64
}

func newNoisy(b *testing.B, s *server) *noisy {
	n := &noisy{server: s.user(b, "noisy"), visitor: &server{url: s.url}}
	n.big, n.copied, n.picturesIn = n.mkdir(b, "/big"), n.mkdir(b, "/copied"), n.mkdir(b, "/pictures")
	for at := 0; at < noisyNodes; at += 1000 {
		n.must(b, n.request("POST", "/batch", n.items(1000, func(i int) (string, int) { return fmt.Sprintf("/big/file-%06d", at+i), i % 2 })))
	}
	n.must(b, n.request("POST", "/batch", n.items(900, func(i int) (string, int) { return fmt.Sprintf("/copied/%d/%d", i/30, i), 10 })))
	for i := range noisyPictures {
		n.must(b, n.request("PUT", fmt.Sprintf("/files/pictures/%d.png", i), picture(b, i)))
	}
	for _, c := range n.children(b, n.big, 200) {
		n.files = append(n.files, c.ID)
	}
	for _, c := range n.children(b, n.picturesIn, 1000) {
		if strings.HasSuffix(c.Name, ".png") {
			n.pictures = append(n.pictures, c.ID)
		}
	}
	n.must(b, n.request("GET", "/nodes/"+n.pictures[0]+"/thumbnail", nil))
	var share struct{ Token string }
	n.call(b, "POST", "/shares", map[string]any{"node": n.picturesIn}, &share)
	n.share = share.Token
	n.call(b, "POST", "/shares", map[string]any{"node": n.picturesIn, "code": "abcd1234"}, &share)
	n.coded = share.Token
	var access struct{ Access string }
	n.visitor.call(b, "POST", "/public/shares/"+n.share+"/open", map[string]any{}, &access)
	n.access = access.Access
	var log struct{ Items []struct{ ID string } }
	n.call(b, "GET", "/activity?limit=1", nil, &log)
	n.event = log.Items[0].ID
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice a client that disconnects
		<-r.Context().Done()
	}))
	b.Cleanup(func() { slow.CloseClientConnections(); slow.Close() })
	var hook struct{ ID string }
	n.call(b, "POST", "/webhooks", map[string]any{"url": slow.URL, "types": []string{"grant"}}, &hook)
	n.hook = hook.ID
	return n
}

func (n *noisy) must(b *testing.B, req *http.Request) {
	b.Helper()
	resp, err := http.DefaultClient.Do(req)
	must(b, err)
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		b.Fatalf("%s %s: %s %s", req.Method, req.URL.Path, resp.Status, text)
	}
}

type child struct{ ID, Name string }

func (n *noisy) children(b *testing.B, folder string, limit int) []child {
	var page struct{ Items []child }
	n.call(b, "GET", fmt.Sprintf("/nodes/%s/children?limit=%d", folder, limit), nil, &page)
	return page.Items
}

// items returns the body of a batch that puts count files.
func (n *noisy) items(count int, file func(i int) (path string, size int)) []byte {
	var body bytes.Buffer
	for i := range count {
		path, size := file(i)
		fmt.Fprintf(&body, `{"op":"put","path":%q,"size":%d,"parents":true}`+"\n", path, size)
		body.WriteString(strings.Repeat("x", size))
	}
	return body.Bytes()
}

// picture returns a PNG of 12 million pixels, distinct for each n.
func picture(b *testing.B, n int) []byte {
	b.Helper()
	img := image.NewPaletted(image.Rect(0, 0, 4000, 3000), color.Palette{color.Black, color.White})
	img.Pix[n] = 1
	var out bytes.Buffer
	must(b, png.Encode(&out, img))
	return out.Bytes()
}

// route is a request of the noisy account. lane is the index of the sender, 0 to 30, and n how
// often all senders have sent it.
type route struct {
	name string
	ask  func(lane int, n int64) *http.Request
}

// routes returns the expensive routes.
func (n *noisy) routes() []route {
	get := func(path string) func(int, int64) *http.Request {
		return func(int, int64) *http.Request { return n.request("GET", path, nil) }
	}
	public := func(path string) func(int, int64) *http.Request {
		return func(int, int64) *http.Request {
			req := n.visitor.request("GET", "/public/shares/"+n.share+path, nil)
			req.Header.Set("Authorization", "Share "+n.access)
			return req
		}
	}
	propfind := func(path, depth string) func(int, int64) *http.Request {
		return func(int, int64) *http.Request {
			req := n.request("PROPFIND", path, nil)
			req.SetBasicAuth("noisy", password)
			req.Header.Set("Depth", depth)
			return req
		}
	}
	return []route{
		{"list limit 1000", get("/nodes/" + n.big + "/children?limit=1000")},
		{"list by size", get("/nodes/" + n.big + "/children?limit=1000&sort=size")},
		{"search finds nothing", get("/search?q=zzzz")},
		{"search finds all", get("/search?q=file&limit=1000")},
		{"activity", get("/activity?limit=1000")},
		{"activity export", get("/activity/export")},
		{"changes", get("/changes?limit=1000")},
		{"totals", get("/nodes/root/totals")},
		{"archive", get("/nodes/" + n.big + "/archive")},
		{"batch of folders", func(_ int, at int64) *http.Request {
			var body bytes.Buffer
			for i := range 1000 {
				fmt.Fprintf(&body, `{"op":"folder","path":"/folders/%d/%d","parents":true}`+"\n", at, i)
			}
			return n.request("POST", "/batch", body.Bytes())
		}},
		{"batch of files", func(_ int, at int64) *http.Request {
			return n.request("POST", "/batch", n.items(1000, func(i int) (string, int) { return fmt.Sprintf("/files/%d/%d", at, i), 20 }))
		}},
		{"batch contents", func(int, int64) *http.Request {
			return n.request("POST", "/batch/contents", map[string]any{"nodes": n.files})
		}},
		{"bulk move", func(_ int, at int64) *http.Request {
			parent := []string{n.copied, n.picturesIn}[at%2]
			return n.request("POST", "/operations", map[string]any{"kind": "move", "nodes": n.files, "parent": parent, "conflict": "rename"})
		}},
		{"folder copy", func(int, int64) *http.Request {
			return n.request("POST", "/nodes/"+n.copied+"/copy", map[string]any{"parent": "root", "conflict": "rename"})
		}},
		{"mkdir", func(_ int, at int64) *http.Request {
			return n.request("POST", "/nodes", map[string]any{"path": fmt.Sprintf("/d%d", at), "type": "folder"})
		}},
		{"small PUT", func(_ int, at int64) *http.Request {
			return n.request("PUT", fmt.Sprintf("/files/p%d", at), []byte(fmt.Sprint(at)))
		}},
		{"begin of uploads", func(_ int, at int64) *http.Request {
			return n.request("POST", "/uploads", map[string]any{"path": fmt.Sprintf("/u%d", at), "size": 1 << 20})
		}},
		{"download by link", func(_ int, at int64) *http.Request {
			return public("/nodes/"+n.pictures[at%noisyPictures]+"/content")(0, 0)
		}},
		{"zip by link", public("/nodes/root/zip")},
		{"thumbnails", func(_ int, at int64) *http.Request {
			return n.request("GET", "/nodes/"+n.pictures[at%noisyPictures]+"/thumbnail?size="+[]string{"256", "1280"}[at/noisyPictures%2], nil)
		}},
		{"exports", func(int, int64) *http.Request {
			return n.request("POST", "/exports", map[string]any{"folder": n.big})
		}},
		{"PROPFIND", propfind("/dav/files/big/", "1")},
		{"nextcloud poll", func(lane int, at int64) *http.Request {
			if at%16 == 0 {
				return n.request("PUT", fmt.Sprintf("/files/big/poll-%d", lane), []byte(fmt.Sprint(at)))
			}
			return propfind("/remote.php/dav/files/noisy/", "1")(lane, at)
		}},
		{"webhook test, slow receiver", func(int, int64) *http.Request {
			return n.request("POST", "/webhooks/"+n.hook+"/replay", map[string]any{"event": n.event})
		}},
		{"share codes", func(int, int64) *http.Request {
			return n.visitor.request("POST", "/public/shares/"+n.coded+"/open", map[string]any{"code": "wrong123"})
		}},
		{"logins", func(_ int, at int64) *http.Request {
			return n.visitor.request("POST", "/sessions", map[string]any{"name": fmt.Sprintf("nobody%d", at), "password": "a wrong password"})
		}},
	}
}

// attack keeps 31 requests of a route in flight until stop, which returns the responses per second
// and the number of responses by status.
func (n *noisy) attack(b *testing.B, r route) (stop func() (rate float64, statuses map[int]int)) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	transport := &http.Transport{MaxIdleConnsPerHost: noisyRequests}
	client := &http.Client{Transport: transport}
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses, start := map[int]int{}, time.Now()
	for lane := range noisyRequests {
		all.Go(func() {
			for ctx.Err() == nil {
				resp, err := client.Do(r.ask(lane, n.count.Add(1)).WithContext(ctx))
				if err != nil {
					continue
				}
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				mu.Lock()
				if err == nil {
					statuses[resp.StatusCode]++
				}
				mu.Unlock()
				if resp.StatusCode == http.StatusTooManyRequests {
					select { // a client that is told to wait pauses briefly, or it would only measure itself
					case <-ctx.Done():
					case <-time.After(time.Duration(10+rand.IntN(10)) * time.Millisecond):
					}
				}
			}
		})
	}
	<-time.After(500 * time.Millisecond) // until all requests are in flight
	return func() (float64, map[int]int) {
		took := time.Since(start)
		cancel()
		all.Wait()
		transport.CloseIdleConnections()
		answers := 0
		for _, n := range statuses {
			answers += n
		}
		return float64(answers) / took.Seconds(), statuses
	}
}

// row formats a route's result: rate, responses by status, the neighbour's median and p99 before
// and during, and whether the goal is met.
func (r route) row(before, during [4]sample, rate float64, statuses map[int]int) []any {
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		codes = append(codes, fmt.Sprintf("%d: %d", code, statuses[code]))
	}
	row := []any{r.name, fmt.Sprintf("%s (%s)", digits(rate), strings.Join(codes, ", "))}
	met := true
	for i := range before {
		was, is := before[i].p99(), during[i].p99()
		met = met && is <= max(quietLeast, quietFactor*was)
		row = append(row, fmt.Sprintf("%s, %s > %s, %s", digits(before[i].median()), digits(was), digits(during[i].median()), digits(is)))
	}
	return append(row, met)
}
