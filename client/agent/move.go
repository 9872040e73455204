package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"smartdrive/internal/intake/bundle"
)

// movesOf are the moves of the files of a bundle that was sent.
func movesOf(files, markers []file, to string) []move {
	moves := make([]move, 0, len(files)+len(markers))
	for _, f := range files {
		moves = append(moves, move{From: f.Path, To: path.Join(to, f.Path), Size: f.Size, Mtime: f.Mtime})
	}
	for _, m := range markers {
		moves = append(moves, move{From: m.Path, To: path.Join(to, m.Path), Any: true})
	}
	return moves
}

// failMoves are the moves of one group of a bundle, after the file that says why.
func (a *Agent) failMoves(f *flight, group int, why string, now time.Time) []move {
	others := func(other file) bool { return other.Group != group }
	files := slices.DeleteFunc(slices.Clone(f.Files), others)
	return withReason(files, slices.DeleteFunc(slices.Clone(f.Markers), others), f.Manifest.ID, why, now)
}

// withReason are the moves of files that never can be sent; id is only a name that no other has.
func withReason(files, markers []file, id, why string, now time.Time) []move {
	to := path.Join(failedDir, now.Format(time.DateOnly), id)
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n\n", now.Format(time.RFC3339), why)
	for _, f := range files {
		fmt.Fprintf(&text, "%q\n", f.Path)
	}
	reason := move{To: path.Join(to, reasonName), Text: text.String()}
	return append([]move{reason}, movesOf(files, markers, to)...)
}

// refuse puts groups away that never can be sent.
func (a *Agent) refuse(groups []*group) error {
	for _, g := range groups {
		now, files := time.Now(), make([]file, len(g.files))
		var size int64
		for n, name := range g.files {
			s := a.seen[name]
			files[n] = file{Path: name, Size: s.size, Mtime: s.mtime}
			size += s.size
		}
		id := bundle.NewID()
		moves := withReason(files, g.markerFiles(0), id, g.never, now)
		err := a.commit("refuse", func(s *state) {
			s.Moves = slices.Concat(s.Moves, moves)
			s.end(Ended{ID: id, Source: a.source, Outcome: Failed, Reason: g.never, Files: len(files), Size: size, At: now.UTC().Truncate(time.Millisecond)})
			s.Totals.Failed += int64(len(files))
		})
		if err != nil {
			return err
		}
		for _, name := range g.files {
			delete(a.seen, name)
		}
		a.failedNow += len(files)
		a.log.Error("files that cannot be sent", "to", path.Dir(moves[0].To), "files", len(files), "why", g.never)
	}
	if len(groups) > 0 {
		return a.move()
	}
	return nil
}

// move does the moves that are to be done. What cannot be moved stays in the state, is shown, and
// is tried again; it is not sent a second time, and holds up nothing else. The error is that of the
// state.
func (a *Agent) move() error {
	if len(a.state.Moves) == 0 {
		return nil
	}
	if !time.Now().Before(a.nextMove) {
		a.moveErr = nil
		clear(a.stuck)
	}
	done, dirs := map[string]bool{}, map[string]bool{}
	var failed error // the first one: the others mostly say the same
	for _, m := range a.state.Moves {
		if a.stuck[m.To] {
			continue
		}
		err := a.moveOne(m, dirs)
		if errors.Is(err, errCrash) {
			return err
		}
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("move %s to %s: %w", m.From, path.Dir(m.To), err))
			a.stuck[m.To] = true
			continue
		}
		done[m.To] = true
	}
	for dir := range dirs { // else a loss of power could bring the files back when the state has forgotten them
		if err := syncDir(a.root, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = fmt.Errorf("make a move durable: %w", err)
			maps.Copy(a.stuck, done)
			done = nil
		}
	}
	if failed != nil {
		if a.moveErr == nil {
			a.nextMove = time.Now().Add(again)
		}
		a.moveErr = failed
		a.log.Error("files that were dealt with stay where they are; they are not sent again", "error", a.moveErr)
	}
	if len(done) == 0 {
		return nil
	}
	return a.commit("moved", func(s *state) { s.forget(done) })
}

// moveOne does one move and notes the directories that it has changed. A crash before or after it
// makes no difference.
func (a *Agent) moveOne(m move, dirs map[string]bool) error {
	if m.Text == "" {
		if _, err := a.root.Lstat(m.To); err == nil {
			return nil // done by an earlier try; what is at From is another file
		}
		info, err := a.root.Lstat(m.From)
		if errors.Is(err, fs.ErrNotExist) {
			a.log.Warn("a file that was dealt with is gone", "file", m.From)
			return nil
		}
		if err != nil {
			return err
		}
		if !m.is(info) {
			a.log.Info("a file was changed after it was sent: it stays, and is sent again", "file", m.From)
			return nil
		}
	}
	made, err := a.makeDirs(path.Dir(m.To))
	if err != nil {
		return err
	}
	for _, dir := range append(made, path.Dir(m.From)) {
		dirs[dir] = true
	}
	if m.Text != "" {
		f, err := a.root.OpenFile(m.To, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return err
		}
		_, err = f.WriteString(m.Text)
		return errors.Join(err, f.Sync(), f.Close())
	}
	if err := a.root.Rename(m.From, m.To); err != nil {
		return err
	}
	a.putBack(m)
	return a.at("move")
}

// makeDirs makes a directory and those above it, and returns them up to the first that was there
// before.
func (a *Agent) makeDirs(dir string) (touched []string, err error) {
	for above := dir; ; above = path.Dir(above) {
		touched = append(touched, above)
		if _, err := a.root.Lstat(above); err == nil || above == "." {
			break
		}
	}
	return touched, a.root.MkdirAll(dir, 0o777)
}

// putBack undoes a move when it turns out that the file was changed, or replaced by another,
// between the look and the move.
func (a *Agent) putBack(m move) {
	info, err := a.root.Lstat(m.To)
	if err != nil || m.is(info) {
		return
	}
	if _, err := a.root.Lstat(m.From); !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("a file was changed while it was moved, and there is a new one in its place", "file", m.To)
		return
	}
	if err := a.root.Rename(m.To, m.From); err != nil {
		a.log.Warn("a file was changed while it was moved and cannot be put back", "file", m.To, "error", err)
	}
}

// is reports whether a file is the one that the move is about.
func (m move) is(info fs.FileInfo) bool {
	return m.Any || info.Mode().IsRegular() && info.Size() == m.Size && info.ModTime().Equal(m.Mtime)
}
