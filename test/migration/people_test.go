package migration

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
)

// people are users with an account each who read and write concurrently.
type people struct {
	t        *testing.T
	site     *site
	all      []*person
	stop     chan struct{}
	working  sync.WaitGroup
	hush     sync.RWMutex // held for reading during each step
	done     atomic.Int64 // steps of all
	requests atomic.Int64
	cut      atomic.Int64 // requests that a kill or restart has met
	longest  atomic.Int64 // nanoseconds, of those that were not cut
	http     *http.Client
}

// person is a user and the expected contents of the user's files.
type person struct {
	*people
	name, token string
	random      *rand.Rand
	files       []*file
	made        int
}

type file struct {
	node, name string
	size       int
	sum        [32]byte
}

func (s *site) people(names ...string) *people {
	s.t.Helper()
	p := &people{t: s.t, site: s, stop: make(chan struct{}), http: &http.Client{Timeout: time.Minute}}
	s.admin = &person{people: p, name: "admin"}
	s.admin.login()
	for i, name := range names {
		if status, raw := s.admin.must("POST", "/admin/users", map[string]any{"name": name, "password": password}); status != http.StatusCreated {
			s.t.Fatalf("make user %s: %d %s", name, status, raw)
		}
		one := &person{people: p, name: name, random: rand.New(rand.NewPCG(uint64(i), 8))}
		one.login()
		p.all = append(p.all, one)
	}
	for _, one := range p.all {
		p.working.Go(one.work)
	}
	return p
}

func (p *people) rest() {
	close(p.stop)
	p.working.Wait()
}

// workFor waits until so many steps more were taken.
func (p *people) workFor(steps int64) {
	p.t.Helper()
	goal := p.done.Load() + steps
	process.Eventually(p.t, 3*time.Minute, "people at work", func() error {
		if p.t.Failed() { // then they have stopped
			p.t.FailNow()
		}
		if n := p.done.Load(); n < goal {
			return fmt.Errorf("%d of %d steps", n, goal)
		}
		return nil
	})
}

// longestSince returns the longest duration of a request since its last call.
func (p *people) longestSince() time.Duration { return rounded(p.longest.Swap(0)) }

func rounded(nanoseconds int64) time.Duration {
	return time.Duration(nanoseconds).Round(time.Millisecond)
}

func (p *person) login() {
	status, raw := p.must("POST", "/sessions", map[string]any{"name": p.name, "password": password})
	var in struct{ Token string }
	if err := json.Unmarshal(raw, &in); err != nil || status != http.StatusCreated {
		p.t.Fatalf("log in as %s: %d %s %v", p.name, status, raw, err)
	}
	p.token = in.Token
}

var errCut = errors.New("cut off by a kill or restart")

// send makes one request at one of the servers. errCut: it went away meanwhile, and what became of
// the request is not known.
func (p *person) send(method, path string, body []byte, json bool) (int, []byte, error) {
	var at *node
	process.Eventually(p.t, 2*startTime, "a server", func() error {
		if at = p.site.door(); at == nil {
			return errCut
		}
		return nil
	})
	return p.sendTo(at, method, path, body, json)
}

func (p *person) sendTo(at *node, method, path string, body []byte, json bool) (int, []byte, error) {
	turn, base := at.turns.Load(), at.base.Load()
	if base == nil {
		return 0, nil, errCut
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, *base+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	if json {
		req.Header.Set("Content-Type", "application/json")
	}
	at.inside.Add(1)
	begun := time.Now()
	status, raw, err := p.do(req)
	at.inside.Add(-1)
	took := time.Since(begun)
	p.requests.Add(1)
	if (err != nil || status >= 500) && at.turns.Load() != turn {
		p.cut.Add(1)
		return 0, nil, errCut
	}
	if at.turns.Load() == turn {
		for old := p.longest.Load(); int64(took) > old && !p.longest.CompareAndSwap(old, int64(took)); old = p.longest.Load() {
		}
	}
	return status, raw, err
}

func (p *people) do(req *http.Request) (int, []byte, error) {
	resp, err := p.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, errors.Join(err, resp.Body.Close())
}

// must repeats a request that a kill has cut off. The request must be idempotent. Other errors fail
// the test.
func (p *person) must(method, path string, in any) (int, []byte) {
	p.t.Helper()
	var body []byte
	if in != nil {
		body, _ = json.Marshal(in)
	}
	return p.mustBytes(method, path, body, in != nil)
}

func (p *person) mustBytes(method, path string, body []byte, json bool) (int, []byte) {
	p.t.Helper()
	for {
		status, raw, err := p.send(method, path, body, json)
		if errors.Is(err, errCut) {
			continue
		}
		if err != nil {
			p.t.Errorf("%s: %s %s: %v", p.name, method, path, err)
		}
		return status, raw
	}
}

const (
	stepEvery = 20 * time.Millisecond // people are quick, but no load test: what they have made is to be copied in seconds
	mostFiles = 25                    // of one
)

// work runs random operations until the users are paused.
func (p *person) work() {
	pace := time.NewTicker(stepEvery)
	defer pace.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-pace.C:
		}
		p.hush.RLock()
		p.step()
		p.hush.RUnlock()
		p.done.Add(1)
		if p.t.Failed() {
			return
		}
	}
}

func (p *person) step() {
	switch n := p.random.IntN(10); {
	case len(p.files) > mostFiles:
		p.remove(p.random.IntN(len(p.files)))
	case len(p.files) < 3 || n < 4:
		p.put()
	case n < 7:
		p.read(p.files[p.random.IntN(len(p.files))])
	case n < 9:
		p.rename(p.files[p.random.IntN(len(p.files))])
	default:
		p.remove(p.random.IntN(len(p.files)))
	}
}

func (p *person) expect(what string, status int, raw []byte, want ...int) bool {
	if slices.Contains(want, status) {
		return true
	}
	p.t.Errorf("%s: %s: %d %s", p.name, what, status, raw)
	return false
}

// put sends a new file. Cut off, it may be there or not: that is found out by its name.
func (p *person) put() {
	b := make([]byte, 1+p.random.IntN(200_000))
	for i := range b {
		b[i] = byte(p.random.Uint32())
	}
	p.made++
	f := &file{name: fmt.Sprintf("file %d", p.made), size: len(b), sum: sha256.Sum256(b)}
	status, raw, err := p.send("PUT", "/files/"+url.PathEscape(f.name), b, false)
	if errors.Is(err, errCut) {
		if status, raw = p.must("GET", "/nodes?path="+url.QueryEscape("/"+f.name), nil); status == http.StatusNotFound {
			return
		}
		err = nil
	}
	if err != nil || !p.expect("put "+f.name, status, raw, http.StatusCreated, http.StatusOK) {
		p.failed("put", err)
		return
	}
	p.keep(f, raw)
}

func (p *person) keep(f *file, raw []byte) {
	var node struct {
		ID   string
		Node struct{ ID string }
	}
	if err := json.Unmarshal(raw, &node); err != nil || node.ID == "" && node.Node.ID == "" {
		p.t.Errorf("%s: what is the id in %s: %v", p.name, raw, err)
		return
	}
	if f.node = node.Node.ID; f.node == "" {
		f.node = node.ID
	}
	p.files = append(p.files, f)
}

func (p *person) failed(what string, err error) {
	if err != nil {
		p.t.Errorf("%s: %s: %v", p.name, what, err)
	}
}

func (p *person) read(f *file) {
	status, raw := p.must("GET", "/nodes/"+f.node+"/content", nil)
	if p.expect("read "+f.name, status, raw[:min(len(raw), 300)], http.StatusOK) && sha256.Sum256(raw) != f.sum {
		p.t.Errorf("%s: %s has other bytes: %d instead of %d", p.name, f.name, len(raw), f.size)
	}
}

// rename may be repeated: the name is the same then.
func (p *person) rename(f *file) {
	p.made++
	name := fmt.Sprintf("renamed %d", p.made)
	status, raw := p.must("PATCH", "/nodes/"+f.node, map[string]any{"name": name})
	if p.expect("rename "+f.name, status, raw, http.StatusOK) {
		f.name = name
	}
}

func (p *person) remove(i int) {
	f := p.files[i]
	status, raw := p.must("DELETE", "/nodes/"+f.node+"?permanent=true", nil)
	p.expect("delete "+f.name, status, raw, http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusNotFound)
	p.files = append(p.files[:i], p.files[i+1:]...)
}

// slow is an upload in two parts.
type slow struct {
	*person
	id, name string
	parts    [2][]byte
}

// begin begins an upload of an otherwise idle user and sends its first part.
func (p *people) begin() *slow {
	p.t.Helper()
	first := p.all[0]
	u := &slow{person: &person{people: p, name: first.name, token: first.token}, name: fmt.Sprintf("slow %d", p.requests.Load())}
	u.parts[0], u.parts[1] = bytes.Repeat([]byte("first "), 8<<20/6+1)[:8<<20], []byte(strings.Repeat("second ", 1000))
	status, raw := u.must("POST", "/uploads", map[string]any{"path": "/" + u.name, "size": len(u.parts[0]) + len(u.parts[1])})
	var in struct{ ID string }
	if err := json.Unmarshal(raw, &in); err != nil || in.ID == "" {
		p.t.Fatalf("begin an upload: %d %s", status, raw)
	}
	u.id = in.ID
	u.part(0)
	return u
}

func (u *slow) part(n int) {
	status, raw := u.mustBytes("PUT", fmt.Sprintf("/uploads/%s/parts/%d", u.id, n), u.parts[n], false)
	u.expect(fmt.Sprintf("part %d of %s", n, u.name), status, raw, http.StatusOK, http.StatusCreated, http.StatusNoContent)
}

// finish sends the second part and reads the file that comes of both.
func (p *people) finish(u *slow) {
	p.t.Helper()
	u.part(1)
	status, raw := u.must("POST", "/uploads/"+u.id+"/complete", map[string]any{})
	u.expect("complete "+u.name, status, raw, http.StatusOK, http.StatusCreated)
	f := &file{name: u.name, size: len(u.parts[0]) + len(u.parts[1])}
	h := sha256.New()
	h.Write(u.parts[0])
	h.Write(u.parts[1])
	copy(f.sum[:], h.Sum(nil))
	if status, raw = u.must("GET", "/nodes?path="+url.QueryEscape("/"+u.name), nil); u.expect("find "+u.name, status, raw, http.StatusOK) {
		u.keep(f, raw)
		u.read(f)
		p.all = append(p.all, u.person)
	}
}

// judge reads every file, and compares what each account is charged with what its files are.
func (p *people) judge() {
	p.t.Helper()
	sums := map[string]int64{}
	for _, one := range p.all {
		for _, f := range one.files {
			one.read(f)
			sums[one.name] += int64(f.size)
		}
	}
	for _, one := range p.all {
		process.Eventually(p.t, time.Minute, "the balance of "+one.name, func() error {
			status, raw := one.must("GET", "/me", nil)
			var me struct{ Usage struct{ Used int64 } }
			if err := json.Unmarshal(raw, &me); err != nil || me.Usage.Used != sums[one.name] {
				return fmt.Errorf("%d: %d bytes charged, the files have %d: %s", status, me.Usage.Used, sums[one.name], raw)
			}
			return nil
		})
	}
}
