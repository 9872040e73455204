package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"time"

	"example.org/smartdrive/internal/intake/bundle"
)

// Paths relative to the watched directory.
const (
	privateDir = ".smartdrive"
	sentDir    = "sent"
	failedDir  = "failed"
	lockName   = privateDir + "/lock"
	stateName  = privateDir + "/state.json"
	liveName   = privateDir + "/live.json"
	reasonName = "REASON.txt"
)

// state is the content of state.json. Its slices, and values its pointers refer to, are immutable;
// see commit.
type state struct {
	Version int            `json:"version"` // 1
	Current *outgoing      `json:"current,omitempty"`
	Moves   []move         `json:"moves,omitempty"`
	Litter  []remoteFolder `json:"litter,omitempty"` // server folders of given-up bundles, to be deleted
	Ended   []BundleResult `json:"ended,omitempty"`  // the newest first
	Totals  Totals         `json:"totals"`
}

// maxEnded is the number of ended bundles kept in the state: a day of one every five minutes.
const maxEnded = 288

// stage is the progress of the current bundle.
type stage string

const (
	stageFrozen  stage = "sending" // members are being sent
	stageSealing stage = "sealing" // the server holds all of them; meta.json may have been sent
)

// outgoing is a frozen bundle that is being sent.
type outgoing struct {
	Manifest bundle.Manifest `json:"manifest"`
	Files    []frozenFile    `json:"files"`             // files of the members, in the same order
	Markers  []frozenFile    `json:"markers,omitempty"` // only Path and Group are set
	Server   string          `json:"server"`
	Stage    stage           `json:"stage"`
}

// frozenFile is a file as it was when its bundle was frozen.
type frozenFile struct {
	Path   string    `json:"path"`
	Size   int64     `json:"size"`
	Mtime  time.Time `json:"mtime"`
	BLAKE3 string    `json:"blake3"`
	Group  int       `json:"group"` // files with the same number are sent or failed together
}

// move is a pending move of a file out of the directory. It is dropped if the file has changed.
type move struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Size  int64     `json:"size"`
	Mtime time.Time `json:"mtime"`
	Any   bool      `json:"any,omitempty"`  // a marker: moved whatever its content
	Text  string    `json:"text,omitempty"` // not empty: create a file with this text at To instead
}

// remoteFolder is a folder on a server.
type remoteFolder struct {
	Server string `json:"server"`
	Path   string `json:"path"`
}

// Outcome is the outcome of a bundle, or of a group of files that never became one.
type Outcome string

// The outcomes.
const (
	Sent     Outcome = "sent"
	Refrozen Outcome = "refrozen" // given up; its files are sent in other bundles
	Failed   Outcome = "failed"   // its files are in failed/
)

// BundleResult is the agent's record of a bundle, or of files that were refused before they became
// one. Verdict is always nil unless Outcome is Sent.
type BundleResult struct {
	ID        string    `json:"id"`
	Source    string    `json:"source"`
	Outcome   Outcome   `json:"outcome"` // how sending it ended
	Reason    string    `json:"reason,omitempty"`
	Files     int       `json:"files"`
	Documents int       `json:"documents"`
	Size      int64     `json:"size"`              // bytes
	At        time.Time `json:"at"`                // when it ended
	Verdict   *Verdict  `json:"verdict,omitempty"` // the server's verdict on its documents; nil: not known yet
}

// Totals are counts since the state file was created.
type Totals struct {
	Bundles   int64 `json:"bundles"` // bundles sent
	Files     int64 `json:"files"`
	Documents int64 `json:"documents"`
	Bytes     int64 `json:"bytes"`
	Failed    int64 `json:"failed"` // files moved to failed/
}

// maxState bounds the size of state.json that is read, in bytes: fifty times the largest possible
// one.
const maxState = 256 << 20

// errOtherState reports an unreadable state.json or one of another version.
var errOtherState = errors.New("it cannot be read; nothing was changed. Move it away to start again: what was being sent is then sent again")

// loadState reads state.json. A missing file is an empty state; errOtherState reports an unreadable
// one.
func loadState(root *os.Root) (*state, error) {
	f, err := root.Open(stateName)
	if errors.Is(err, fs.ErrNotExist) {
		return &state{Version: 1}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	defer closeQuietly(f)
	s := new(state)
	if err := json.NewDecoder(io.LimitReader(f, maxState)).Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", f.Name(), errOtherState, err)
	}
	if s.Version != 1 {
		return nil, fmt.Errorf("%s: %w (version %d)", f.Name(), errOtherState, s.Version)
	}
	return s, nil
}

// commit applies change to a copy of the state, writes state.json atomically, and then replaces
// a.state. what names the step for tests. change must not modify shared slices or pointers in
// place. If the file cannot be written, a.state stays as it was.
func (a *Agent) commit(what string, change func(*state)) error {
	next := *a.state
	change(&next)
	raw, err := json.Marshal(&next)
	if err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	if err := a.hook("before " + what); err != nil {
		return err
	}
	if err := writeFile(a.root, stateName, append(raw, '\n'), true); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	a.state = &next
	return a.hook("after " + what)
}

// addEnded prepends a record to BundleResult and drops the oldest beyond maxEnded.
func (s *state) addEnded(e BundleResult) {
	s.Ended = append([]BundleResult{e}, s.Ended[:min(len(s.Ended), maxEnded-1)]...)
}

// removeMoves removes the moves whose target is in done.
func (s *state) removeMoves(done map[string]bool) {
	s.Moves = slices.DeleteFunc(slices.Clone(s.Moves), func(m move) bool { return done[m.To] })
}

// writeFile writes a file atomically. With durable set, it also survives a power failure.
func writeFile(root *os.Root, name string, raw []byte, durable bool) error {
	temp := name + ".tmp"
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if durable && err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := root.Rename(temp, name); err != nil || !durable {
		return err
	}
	return syncDir(root, privateDir)
}

// overwrite overwrites a file in place, for a full disk without room for a second copy. A
// concurrent reader may see a mix of old and new content; on failure the file may be truncated.
func overwrite(root *os.Root, name string, raw []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	n, err := f.Write(raw)
	return errors.Join(err, f.Truncate(int64(n)), f.Close())
}

// syncDir makes renames in a directory durable. It does nothing on Windows, which orders such
// changes itself. It fails if the directory cannot be opened or synced.
func syncDir(root *os.Root, dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// closeQuietly closes a file that was only read, and ignores the error.
func closeQuietly(c io.Closer) { _ = c.Close() }

// errCrash is returned by the hook in tests and stops the agent as if the process had died at that
// step.
var errCrash = errors.New("crash")

// hook calls the test hook for a step, if it is set.
func (a *Agent) hook(step string) error {
	if a.testHook == nil {
		return nil
	}
	return a.testHook(step)
}
