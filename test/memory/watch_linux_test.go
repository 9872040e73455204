package memory

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	mib   = 1 << 20
	every = 20 * time.Millisecond // between two samples: what decodes an image lives for tenths of a second at its peak
)

// peaks are the largest resident memory since the last look, in bytes.
type peaks struct {
	server   int64 // exactly, by the kernel
	children int64 // all that decode images, together
	both     int64 // server and children at one moment
}

func (p peaks) String() string {
	return fmt.Sprintf("server %4d MiB, children %4d MiB, together %4d MiB", p.server/mib, p.children/mib, p.both/mib)
}

// watch samples a server and its children until the test ends.
type watch struct {
	server int
	stop   chan struct{}

	mu       sync.Mutex
	seen     peaks
	grew     time.Time        // the server, by more than a MiB
	most     int64            // of its samples since then
	children map[int]struct{} // processes that are its children, and
	others   map[int]struct{} // that are not
}

func newWatch(t testing.TB, server int) *watch {
	w := &watch{server: server, stop: make(chan struct{}), children: map[int]struct{}{}, others: map[int]struct{}{}}
	var done sync.WaitGroup
	done.Go(w.run)
	t.Cleanup(func() { close(w.stop); done.Wait() })
	return w
}

func (w *watch) run() {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			w.sample()
		case <-w.stop:
			return
		}
	}
}

func (w *watch) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findLocked()
	server, children := number(w.server, "VmRSS"), int64(0)
	for pid := range w.children {
		children += number(pid, "RssAnon") // the program itself, which they share with the server, counts there
	}
	if server > w.most+mib {
		w.most, w.grew = server, time.Now()
	}
	w.seen.server = max(w.seen.server, number(w.server, "VmHWM"))
	w.seen.children = max(w.seen.children, children)
	w.seen.both = max(w.seen.both, server+children)
}

// findLocked looks which processes are children that decode. Between fork and exec a child has the
// memory of the server.
func (w *watch) findLocked() {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return
	}
	there := make(map[int]struct{}, len(all))
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		there[pid] = struct{}{}
		_, child := w.children[pid]
		if _, other := w.others[pid]; child || other {
			continue
		}
		if number(pid, "PPid") != int64(w.server) {
			w.others[pid] = struct{}{}
		} else if line, err := os.ReadFile(path + "/cmdline"); err == nil && bytes.Contains(line, []byte("decode-image")) {
			w.children[pid] = struct{}{}
		}
	}
	for _, known := range []map[int]struct{}{w.children, w.others} {
		for pid := range known {
			if _, is := there[pid]; !is {
				delete(known, pid)
			}
		}
	}
}

// follow resets the peaks and watches this server from now on.
func (w *watch) follow(t testing.TB, server int) {
	t.Helper()
	const highWater = "5" // proc(5), clear_refs
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", server), []byte(highWater), 0); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.seen, w.most, w.grew = server, peaks{}, 0, time.Now()
	clear(w.children)
	clear(w.others)
}

// read returns the peaks since reset.
func (w *watch) read() peaks {
	w.sample()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// calm returns an error while the server's memory still grows.
func (w *watch) calm() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if since := time.Since(w.grew); since < time.Second {
		return fmt.Errorf("it grew %s ago", since)
	}
	return nil
}

// number is a field of the status of a process, in bytes where it is memory; zero if the process is
// gone.
func number(pid int, field string) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, is := strings.CutPrefix(line, field+":"); is {
			words := strings.Fields(rest)
			n, err := strconv.ParseInt(words[0], 10, 64)
			if err != nil {
				return 0
			}
			if len(words) > 1 {
				n <<= 10 // kB
			}
			return n
		}
	}
	return 0
}
