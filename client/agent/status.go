package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Status is what "agent status" shows.
type Status struct {
	Dir       string    `json:"dir"`
	To        string    `json:"to"`
	Server    string    `json:"server"`
	Running   bool      `json:"running"`
	Once      bool      `json:"once,omitempty"` // the last agent was to send what is there and to end
	PID       int       `json:"pid,omitempty"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`

	Waiting Amount    `json:"waiting"` // not complete yet
	Ready   Amount    `json:"ready"`   // complete, for the next bundles
	Held    []Held    `json:"held"`    // not taken, with reasons
	Moving  int       `json:"moving"`  // dealt with, but not moved yet
	Failed  int       `json:"failed"`  // files below failed/, until somebody takes them away
	Sending *Sending  `json:"sending"` // the bundle on its way
	Bundles []Ended   `json:"bundles"` // the newest first
	Totals  Totals    `json:"totals"`
	Contact time.Time `json:"last_contact,omitzero"` // with the server, that succeeded

	Error   string    `json:"error,omitempty"` // why nothing moves
	NextTry time.Time `json:"next_try,omitzero"`
}

// Amount is some files.
type Amount struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Held is a file that is not taken.
type Held struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Sending is the bundle on its way.
type Sending struct {
	ID        string `json:"id"`
	Stage     string `json:"stage"` // sending | sealing
	Files     int    `json:"files"`
	FilesSent int    `json:"files_sent"`
	Documents int    `json:"documents"`
	Bytes     int64  `json:"bytes"`
	BytesSent int64  `json:"bytes_sent"`
	Tries     int    `json:"tries"` // that failed
}

// mostHeld bounds how many files that are not taken are named.
const mostHeld = 100

// live is live.json: what is known besides the state.
type live struct {
	busy atomic.Bool // somebody writes it

	mu      sync.Mutex
	written time.Time // by the monotonic clock
	last    []byte    // that was written
	Status
}

// How often live.json is written: while something is on its way, and while nothing happens.
const (
	showEvery  = time.Second
	leastOften = time.Minute
)

// contact notes that the server has answered.
func (a *Agent) contact() {
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	a.live.Contact = time.Now().UTC().Truncate(time.Millisecond)
}

// lastContact is what the agent before has noted; nothing, if it cannot be read.
func lastContact(root *os.Root) time.Time {
	var s Status
	if raw, err := root.ReadFile(liveName); err != nil || json.Unmarshal(raw, &s) != nil {
		return time.Time{}
	}
	return s.Contact
}

// sending begins to tell of a bundle and returns how to go on.
func (l *live) sending(f *flight, a *Agent) func(files int, bytes int64) {
	l.mu.Lock()
	m := &f.Manifest
	l.Sending = &Sending{ID: m.ID, Files: len(m.Members), Documents: m.Declared(), Bytes: m.Size(), Tries: a.fails}
	l.mu.Unlock()
	return func(files int, bytes int64) {
		l.mu.Lock()
		l.Sending.FilesSent, l.Sending.BytesSent = max(files, l.Sending.FilesSent), max(bytes, l.Sending.BytesSent)
		l.mu.Unlock()
		a.show(false)
	}
}

// stuck tells of a request that is tried again. Whether the bundle gets on in the end is judged
// when that ends.
func (l *live) stuck(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Error = ""
	if err != nil {
		l.Error = err.Error()
	}
}

// count notes how much is waiting and complete.
func (a *Agent) count(ready []*group) {
	var all, complete Amount
	for name, s := range a.seen {
		if a.held[name] == "" && !a.isMarker(name) {
			all.Files, all.Bytes = all.Files+1, all.Bytes+s.size
		}
	}
	for _, g := range ready {
		complete.Files, complete.Bytes = complete.Files+len(g.files), complete.Bytes+g.size
	}
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	a.live.Ready, a.live.Waiting = complete, Amount{all.Files - complete.Files, all.Bytes - complete.Bytes}
}

// show writes live.json, now or if it is time. It is for people: when it cannot be written they see
// an older one.
func (a *Agent) show(now bool) {
	if !a.live.busy.CompareAndSwap(false, true) {
		return
	}
	defer a.live.busy.Store(false)
	if !now && !a.live.due() {
		return
	}
	if now {
		a.describe()
	}
	raw, err := a.live.encode()
	if raw = append(raw, '\n'); err == nil && len(raw) > 1 && writeFile(a.root, liveName, raw, false) != nil {
		err = overwrite(a.root, liveName, raw) // the disk may be full, and that is to be told
	}
	if err != nil {
		a.log.Debug("the status cannot be written", "error", err)
	}
}

func (l *live) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.written) >= showEvery
}

// encode returns nothing when nothing new is to be told.
func (l *live) encode() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	raw, err := json.Marshal(&l.Status)
	if err != nil || bytes.Equal(raw, l.last) && time.Since(l.written) < leastOften {
		return nil, err
	}
	l.written = time.Now()
	l.UpdatedAt = l.written.UTC().Truncate(time.Second)
	l.last, err = json.Marshal(&l.Status)
	return l.last, err
}

// describe takes over what only the agent's own goroutine may read.
func (a *Agent) describe() {
	l := &a.live
	l.Held, l.Error, l.NextTry = []Held{}, "", time.Time{}
	for _, name := range slices.Sorted(maps.Keys(a.held)) {
		if len(l.Held) < mostHeld {
			l.Held = append(l.Held, Held{name, a.held[name]})
		}
	}
	if err := errors.Join(a.trouble, a.broken, a.moveErr); err != nil {
		l.Error = err.Error()
	}
	if a.trouble != nil {
		l.NextTry = a.nextTry.UTC().Truncate(time.Second)
	}
	if l.Sending != nil {
		l.Sending.Tries = a.fails
	}
}

// ReadStatus says how the agent of a directory is doing, whether or not it runs. fs.ErrNotExist:
// there never was one.
func ReadStatus(dir string) (Status, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Status{}, fmt.Errorf("open the watched directory: %w", err)
	}
	defer letGo(root)
	pid, err := running(root)
	if err != nil {
		return Status{}, fmt.Errorf("no agent has watched %s: %w", dir, err)
	}
	s := Status{Dir: dir, Held: []Held{}}
	raw, err := root.ReadFile(liveName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("read what the agent has written: %w", err)
	}
	if err == nil && json.Unmarshal(raw, &s) != nil {
		s = Status{Dir: dir, Held: []Held{}, Error: "how the agent is doing cannot be read: the disk may be full"}
	}
	kept, err := loadState(root)
	if err != nil {
		return s, err
	}
	s.Running, s.PID = pid != 0, pid
	s.take(kept)
	s.Failed, err = failedFiles(root)
	return s, err
}

func failedFiles(root *os.Root) (n int, err error) {
	err = fs.WalkDir(root.FS(), failedDir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != reasonName {
			n++
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return n, err
}

// take completes the status with the state, which is newer than what the agent has written besides.
func (s *Status) take(kept *state) {
	s.Bundles, s.Totals, s.Moving = append([]Ended{}, kept.Ended...), kept.Totals, len(kept.Moves)
	f := kept.Current
	if f == nil {
		s.Sending = nil
		return
	}
	m := &f.Manifest
	if s.Sending == nil || s.Sending.ID != m.ID {
		s.Sending = &Sending{ID: m.ID, Files: len(m.Members), Documents: m.Declared(), Bytes: m.Size()}
	}
	s.Sending.Stage = string(f.Stage)
}

// Alarming reports whether a person should look.
func (s Status) Alarming() bool { return len(s.Concerns()) > 0 }

// Concerns says in words what a person should look at: nobody sends, something is not sent, or the
// server has not accepted all of the last bundles.
func (s Status) Concerns() []string {
	var all []string
	add := func(applies bool, format string, args ...any) {
		if applies {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(!s.Running && !s.Once, "no agent watches the directory: start it")
	add(!s.Running && s.Once && s.Sending != nil, "a bundle is half sent and no agent runs: run it again")
	add(s.Error != "", "nothing moves: %s", s.Error)
	add(len(s.Held) > 0, "%d files are not taken; the reason stands beside each", len(s.Held))
	add(s.Failed > 0, "%d files lie in failed/: read REASON.txt there, correct them, and move them back or away", s.Failed)
	for _, e := range s.Bundles {
		v := e.Verdict
		add(v == nil && e.Outcome == Sent && s.UpdatedAt.Sub(e.At) > answerTime, "bundle %s was sent more than a day ago, and the server does not say what became of it; "+
			"where the server was restored from a backup since, send it again", e.ID)
		if v == nil || v.all() {
			continue
		}
		add(v.State == "rejected", "bundle %s was rejected as a whole: %s", e.ID, v.Reason)
		add(v.State != "rejected" && v.Rejected > 0, "bundle %s: %d documents were rejected; see smartdrive bundles rejected --source %s", e.ID, v.Rejected, e.Source)
		add(v.Conflict > 0, "bundle %s: %d documents are in conflict with others; see smartdrive docs conflicts", e.ID, v.Conflict)
	}
	return all
}
