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

	"smartdrive/internal/intake/bundle"
)

// Places below the directory that is watched.
const (
	privateDir = ".smartdrive"
	sentDir    = "sent"
	failedDir  = "failed"
	lockName   = privateDir + "/lock"
	stateName  = privateDir + "/state.json"
	liveName   = privateDir + "/live.json"
	reasonName = "REASON.txt"
)

// state is state.json. Its slices and what they point to are never changed in place: see commit.
type state struct {
	Version int     `json:"version"` // 1
	Current *flight `json:"current,omitempty"`
	Moves   []move  `json:"moves,omitempty"`
	Litter  []place `json:"litter,omitempty"` // folders of bundles that were given up before they were sealed
	Ended   []Ended `json:"ended,omitempty"`  // the newest first
	Totals  Totals  `json:"totals"`
}

// mostEnded is how many ended bundles are remembered: a day of one every five minutes.
const mostEnded = 288

// stage is how far the bundle on its way is.
type stage string

const (
	stageFrozen  stage = "sending" // members are being sent
	stageSealing stage = "sealing" // the server holds all of them; meta.json may have been sent
)

// flight is a bundle on its way.
type flight struct {
	Manifest bundle.Manifest `json:"manifest"`
	Files    []file          `json:"files"`             // of the members, in their order
	Markers  []file          `json:"markers,omitempty"` // of which only Path and Group count
	Server   string          `json:"server"`
	Stage    stage           `json:"stage"`
}

// file is the file of a member, as it was frozen.
type file struct {
	Path   string    `json:"path"`
	Size   int64     `json:"size"`
	Mtime  time.Time `json:"mtime"`
	BLAKE3 string    `json:"blake3"`
	Group  int       `json:"group"` // those of one number are taken and refused together
}

// move is a file that is to leave, if it still is what it was.
type move struct {
	From  string    `json:"from"`
	To    string    `json:"to"`
	Size  int64     `json:"size"`
	Mtime time.Time `json:"mtime"`
	Any   bool      `json:"any,omitempty"`  // whatever it is now: a marker
	Text  string    `json:"text,omitempty"` // no move: a file with this text is made at To
}

// place is a folder on a server.
type place struct {
	Server string `json:"server"`
	Path   string `json:"path"`
}

// Outcome is how a bundle, or a group of files without one, ended.
type Outcome string

// The outcomes.
const (
	Sent     Outcome = "sent"
	Refrozen Outcome = "refrozen" // given up; its files go in other bundles
	Failed   Outcome = "failed"   // its files are in failed/
)

// Ended is a bundle that has ended.
type Ended struct {
	ID        string    `json:"id"`
	Source    string    `json:"source"`
	Outcome   Outcome   `json:"outcome"`
	Reason    string    `json:"reason,omitempty"`
	Files     int       `json:"files"`
	Documents int       `json:"documents"`
	Size      int64     `json:"size"` // bytes
	At        time.Time `json:"at"`
	Verdict   *Verdict  `json:"verdict,omitempty"` // the server's; nil: not known yet
}

// Totals count since the state was made.
type Totals struct {
	Bundles   int64 `json:"bundles"` // that were sent
	Files     int64 `json:"files"`
	Documents int64 `json:"documents"`
	Bytes     int64 `json:"bytes"`
	Failed    int64 `json:"failed"` // files
}

// maxState bounds what is read of state.json, in bytes: fifty times the largest that is written.
const maxState = 256 << 20

// errOtherState is a state.json that is not this program's.
var errOtherState = errors.New("it cannot be read; nothing was changed. Move it away to start again: what was being sent is then sent again")

func loadState(root *os.Root) (*state, error) {
	f, err := root.Open(stateName)
	if errors.Is(err, fs.ErrNotExist) {
		return &state{Version: 1}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	defer letGo(f)
	s := new(state)
	if err := json.NewDecoder(io.LimitReader(f, maxState)).Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", f.Name(), errOtherState, err)
	}
	if s.Version != 1 {
		return nil, fmt.Errorf("%s: %w (version %d)", f.Name(), errOtherState, s.Version)
	}
	return s, nil
}

// commit changes the state: on the disk first, whole or not at all, then here. what names the
// change for tests.
func (a *Agent) commit(what string, change func(*state)) error {
	next := *a.state
	change(&next)
	raw, err := json.Marshal(&next)
	if err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	if err := a.at("before " + what); err != nil {
		return err
	}
	if err := writeFile(a.root, stateName, append(raw, '\n'), true); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	a.state = &next
	return a.at("after " + what)
}

// end puts e at the head of those that have ended.
func (s *state) end(e Ended) {
	s.Ended = append([]Ended{e}, s.Ended[:min(len(s.Ended), mostEnded-1)]...)
}

// forget removes the moves that are done.
func (s *state) forget(done map[string]bool) {
	s.Moves = slices.DeleteFunc(slices.Clone(s.Moves), func(m move) bool { return done[m.To] })
}

// writeFile writes a file whole or not at all; durable says that it must still be there after a
// loss of power.
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

// overwrite writes over a file, in the room that it has: on a full disk there is none for a second
// one. One that is read meanwhile, or is too small for all of it, may be torn.
func overwrite(root *os.Root, name string, raw []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	n, err := f.Write(raw)
	return errors.Join(err, f.Truncate(int64(n)), f.Close())
}

// syncDir makes what was renamed in a directory durable. Windows cannot, and orders such changes by
// itself.
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

// letGo closes what was only read: nothing is lost if that fails.
func letGo(c io.Closer) { _ = c.Close() }

// errCrash is what tests let a step return: everything stops as if the process had died there.
var errCrash = errors.New("crash")

func (a *Agent) at(step string) error {
	if a.step == nil {
		return nil
	}
	return a.step(step)
}
