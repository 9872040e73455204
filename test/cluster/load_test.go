package cluster

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
)

// load is a set of clients that work through all running instances.
type load struct {
	t       *testing.T
	seed    uint64
	to      *balancer
	actors  []*actor
	abandon time.Duration // --upload-abandon of the instances

	turns   sync.RWMutex // read-locked during each client action, write-locked to stop all clients
	working sync.WaitGroup
	stop    context.CancelFunc

	mu      sync.Mutex
	failed  bool
	count   map[string]int
	slowest map[string]time.Duration // slowest response by request type
	touched map[string]int64         // Unix ms when the last request that delivered bytes was sent, by upload
}

// newLoad creates users and their clients.
func newLoad(t *testing.T, to *balancer, n *node, seed uint64, clients int) *load {
	t.Helper()
	l := &load{t: t, seed: seed, to: to, abandon: abandon, count: map[string]int{}, slowest: map[string]time.Duration{}, touched: map[string]int64{}}
	var tokens []string
	for i, total := range []int64{300 * mib, 200 * mib} {
		tokens = append(tokens, n.NewUser(t, fmt.Sprintf("user%d", i), total).Token)
	}
	for i := range clients {
		l.actors = append(l.actors, &actor{
			l: l, wire: newWire(to, tokens[i%len(tokens)]), name: fmt.Sprintf("c%d", i), rand: rand.New(rand.NewPCG(seed, uint64(i))),
			files: map[string]*file{},
		})
	}
	return l
}

func (l *load) run() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.t.Cleanup(l.abort)
	for _, a := range l.actors {
		l.working.Go(func() {
			for ctx.Err() == nil && !l.broken() {
				l.turns.RLock()
				if ctx.Err() == nil {
					a.turn(context.Background())
				}
				l.turns.RUnlock()
			}
		})
	}
}

// end waits until every client has ended its action, and stops them.
func (l *load) end() {
	l.turns.Lock()
	l.stop()
	l.turns.Unlock()
	l.working.Wait()
}

// abort stops the clients when the test ends early. Later failures of theirs are ignored.
func (l *load) abort() {
	l.stop()
	l.mu.Lock()
	l.failed = true
	l.mu.Unlock()
	l.working.Wait()
}

// compare checks the instances against what the clients know.
func (l *load) compare() {
	l.t.Helper()
	for _, a := range l.actors {
		for _, at := range slices.Sorted(maps.Keys(a.files)) {
			a.look(context.Background(), at)
		}
		for _, u := range slices.Clone(a.uploads) {
			a.lookUpload(context.Background(), u)
		}
	}
}

// broken reports whether a violation was found or the load was aborted.
func (l *load) broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// fail reports a violation. Only the first one is reported, because others follow from it.
func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return
	}
	l.failed = true
	l.t.Errorf("%s seed %d: %s", time.Now().UTC().Format("15:04:05.000"), l.seed, fmt.Sprintf(format, args...))
}

// note counts a response.
func (l *load) note(what string, r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[what+map[result]string{done: "", refused: " refused", unsure: " unsure"}[r.result()]]++
	if r.took > l.slowest[what] {
		l.slowest[what] = r.took
	}
}

// touch records that a request with accepted bytes was sent at a time.
func (l *load) touch(upload string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched[upload] = max(l.touched[upload], at.UnixMilli())
}

// early returns how much too early an upload was gone at a time in Unix ms.
func (l *load) early(upload string, ended int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	quiet := time.Duration(ended-l.touched[upload]) * time.Millisecond
	return max(0, l.abandon-quiet)
}

// done returns the number of successful requests.
func (l *load) done() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, times := range l.count {
		if !strings.Contains(what, " ") {
			n += times
		}
	}
	return n
}

// exercised waits until every kind of request has succeeded; otherwise the run proves nothing. Call
// it while the clients are at work.
func (l *load) exercised() {
	l.t.Helper()
	process.Eventually(l.t, patience, "clients do everything", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, what := range []string{"put", "begin", "part", "complete", "cancel", "delete", "read", "replace"} {
			if l.count[what] == 0 && !l.failed {
				return fmt.Errorf("there was no %q", what)
			}
		}
		return nil
	})
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	for _, what := range slices.Sorted(maps.Keys(l.count)) {
		words = append(words, fmt.Sprintf("%s %d", what, l.count[what]))
	}
	var slow []string
	for _, what := range slices.Sorted(maps.Keys(l.slowest)) {
		slow = append(slow, fmt.Sprintf("%s %s", what, l.slowest[what].Round(time.Millisecond)))
	}
	return strings.Join(words, ", ") + "; slowest: " + strings.Join(slow, ", ")
}

// file is what a path may contain: several contents after lost responses; nil means no file.
type file struct{ possible []*history.Content }
