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

// Status is the state of an agent as "agent status" shows it.
type Status struct {
	Dir       string    `json:"dir"`
	To        string    `json:"to"`
	Server    string    `json:"server"`
	Running   bool      `json:"running"`
	Once      bool      `json:"once,omitempty"` // the last agent ran RunOnce
	PID       int       `json:"pid,omitempty"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`

	Waiting FileCount      `json:"waiting"` // not complete yet or not taken yet
	Ready   FileCount      `json:"ready"`   // complete, for the next bundle
	Held    []SkippedFile  `json:"held"`    // skipped files, at most 100
	Moving  int            `json:"moving"`  // files to be moved
	Failed  int            `json:"failed"`  // files below failed/
	Sending *Sending       `json:"sending"` // the current bundle; nil: none
	Bundles []BundleResult `json:"bundles"` // the newest first
	Totals  Totals         `json:"totals"`
	Contact time.Time      `json:"last_contact,omitzero"` // last successful request

	Error   string    `json:"error,omitempty"` // why sending or moving fails; empty: it does not
	NextTry time.Time `json:"next_try,omitzero"`
}

// FileCount is a number of files and their total size.
type FileCount struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// SkippedFile is a file that is not taken, and why.
type SkippedFile struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Sending is the progress of the current bundle.
type Sending struct {
	ID        string `json:"id"`
	Stage     string `json:"stage"` // sending | sealing
	Files     int    `json:"files"`
	FilesSent int    `json:"files_sent"`
	Documents int    `json:"documents"`
	Bytes     int64  `json:"bytes"`
	BytesSent int64  `json:"bytes_sent"`
	Tries     int    `json:"tries"` // failed attempts
}

// maxHeld bounds the number of skipped files in a status.
const maxHeld = 100

// liveStatus is the content of live.json and its write state. mu guards it.
type liveStatus struct {
	writing atomic.Bool // a goroutine is writing it

	mu          sync.Mutex
	writtenAt   time.Time // time of the last write
	lastWritten []byte    // content of the last write
	Status
}

// Intervals of writing live.json.
const (
	statusInterval = time.Second // while sending
	maxStatusAge   = time.Minute // without any change
)

// recordContact records the time of an answer of the server in the live status. It acquires
// live.mu; it writes no file.
func (a *Agent) recordContact() {
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	a.live.Contact = time.Now().UTC().Truncate(time.Millisecond)
}

// lastContact returns the time recorded by the previous agent, zero if live.json is unreadable.
func lastContact(root *os.Root) time.Time {
	var s Status
	if raw, err := root.ReadFile(liveName); err != nil || json.Unmarshal(raw, &s) != nil {
		return time.Time{}
	}
	return s.Contact
}

// startBundle shows bundle b as being sent and returns the function that updates its progress.
func (l *liveStatus) startBundle(b *outgoing, a *Agent) func(files int, bytes int64) {
	l.mu.Lock()
	m := &b.Manifest
	l.Sending = &Sending{ID: m.ID, Files: len(m.Members), Documents: m.Declared(), Bytes: m.Size(), Tries: a.failures}
	l.mu.Unlock()
	return func(files int, bytes int64) {
		l.mu.Lock()
		l.Sending.FilesSent, l.Sending.BytesSent = max(files, l.Sending.FilesSent), max(bytes, l.Sending.BytesSent)
		l.mu.Unlock()
		a.writeStatus(false)
	}
}

// setRequestError shows the error of a request that is being retried; nil clears it.
func (l *liveStatus) setRequestError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Error = ""
	if err != nil {
		l.Error = err.Error()
	}
}

// updateCounts sets the numbers that the status shows: files in complete groups, and all others
// that wait. Skipped files and markers do not count.
func (a *Agent) updateCounts(ready []*group) {
	var all, complete FileCount
	for name, s := range a.observed {
		if a.skipped[name] == "" && !a.isMarker(name) {
			all.Files, all.Bytes = all.Files+1, all.Bytes+s.size
		}
	}
	for _, g := range ready {
		complete.Files, complete.Bytes = complete.Files+len(g.files), complete.Bytes+g.size
	}
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	a.live.Ready, a.live.Waiting = complete, FileCount{all.Files - complete.Files, all.Bytes - complete.Bytes}
}

// writeStatus writes live.json: with now set at once and with the agent's current state, otherwise
// at most every statusInterval. Only the agent's goroutine may set now. If writing fails, the old
// file stays.
func (a *Agent) writeStatus(now bool) {
	if !a.live.writing.CompareAndSwap(false, true) {
		return
	}
	defer a.live.writing.Store(false)
	if !now && !a.live.due() {
		return
	}
	if now {
		a.collectStatus()
	}
	raw, err := a.live.encode()
	if raw = append(raw, '\n'); err == nil && len(raw) > 1 && writeFile(a.root, liveName, raw, false) != nil {
		err = overwrite(a.root, liveName, raw) // the disk may be full; then overwrite in place
	}
	if err != nil {
		a.log.Debug("cannot write live.json; agent status shows an older state", "error", err)
	}
}

// due reports whether the last write is at least statusInterval ago; true before the first. It
// acquires mu.
func (l *liveStatus) due() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.writtenAt) >= statusInterval
}

// encode returns the JSON to write, nil if nothing has changed for less than maxStatusAge.
func (l *liveStatus) encode() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	raw, err := json.Marshal(&l.Status)
	if err != nil || bytes.Equal(raw, l.lastWritten) && time.Since(l.writtenAt) < maxStatusAge {
		return nil, err
	}
	l.writtenAt = time.Now()
	l.UpdatedAt = l.writtenAt.UTC().Truncate(time.Second)
	l.lastWritten, err = json.Marshal(&l.Status)
	return l.lastWritten, err
}

// collectStatus copies the fields that only the agent's goroutine may read into the status.
func (a *Agent) collectStatus() {
	l := &a.live
	l.Held, l.Error, l.NextTry = []SkippedFile{}, "", time.Time{}
	for _, name := range slices.Sorted(maps.Keys(a.skipped)) {
		if len(l.Held) < maxHeld {
			l.Held = append(l.Held, SkippedFile{name, a.skipped[name]})
		}
	}
	if err := errors.Join(a.sendErr, a.localErr, a.moveErr); err != nil {
		l.Error = err.Error()
	}
	if a.sendErr != nil {
		l.NextTry = a.nextTry.UTC().Truncate(time.Second)
	}
	if l.Sending != nil {
		l.Sending.Tries = a.failures
	}
}

// ReadStatus returns the status of the agent of a directory, running or not. It fails with
// fs.ErrNotExist if there never was one.
func ReadStatus(dir string) (Status, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Status{}, fmt.Errorf("open the watched directory: %w", err)
	}
	defer closeQuietly(root)
	pid, err := lockHolder(root)
	if err != nil {
		return Status{}, fmt.Errorf("no agent has watched %s: %w", dir, err)
	}
	s := Status{Dir: dir, Held: []SkippedFile{}}
	raw, err := root.ReadFile(liveName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("read what the agent has written: %w", err)
	}
	if err == nil && json.Unmarshal(raw, &s) != nil {
		s = Status{Dir: dir, Held: []SkippedFile{}, Error: "how the agent is doing cannot be read: the disk may be full"}
	}
	kept, err := loadState(root)
	if err != nil {
		return s, err
	}
	s.Running, s.PID = pid != 0, pid
	s.applyState(kept)
	s.Failed, err = failedFiles(root)
	return s, err
}

// failedFiles counts the files below failed/ without the REASON.txt files. A missing directory
// counts 0.
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

// applyState overwrites the status with the state, which is newer than live.json.
func (s *Status) applyState(kept *state) {
	s.Bundles, s.Totals, s.Moving = append([]BundleResult{}, kept.Ended...), kept.Totals, len(kept.Moves)
	b := kept.Current
	if b == nil {
		s.Sending = nil
		return
	}
	m := &b.Manifest
	if s.Sending == nil || s.Sending.ID != m.ID {
		s.Sending = &Sending{ID: m.ID, Files: len(m.Members), Documents: m.Declared(), Bytes: m.Size()}
	}
	s.Sending.Stage = string(b.Stage)
}

// NeedsAttention reports whether Concerns returns anything that a person must look at.
func (s Status) NeedsAttention() bool { return len(s.Concerns()) > 0 }

// Concerns describes each problem that needs a person: no agent runs, files are not sent, or the
// server did not accept all documents of recent bundles.
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
		add(v == nil && e.Outcome == Sent && s.UpdatedAt.Sub(e.At) > verdictDeadline, "bundle %s was sent more than a day ago, and the server does not say what became of it; "+
			"where the server was restored from a backup since, send it again", e.ID)
		if v == nil || v.allAccepted() {
			continue
		}
		add(v.State == "rejected", "bundle %s was rejected as a whole: %s", e.ID, v.Reason)
		add(v.State != "rejected" && v.Rejected > 0, "bundle %s: %d documents were rejected; see smartdrive bundles rejected --source %s", e.ID, v.Rejected, e.Source)
		add(v.Conflict > 0, "bundle %s: %d documents are in conflict with others; see smartdrive docs conflicts", e.ID, v.Conflict)
	}
	return all
}
