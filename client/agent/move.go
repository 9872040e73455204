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

	"example.org/smartdrive/internal/intake/bundle"
)

// movesOf returns the moves of files and markers to the directory to, where they keep their
// relative paths. A file is moved only with the size and mtime that it was frozen with, a marker in
// any state.
func movesOf(files, markers []frozenFile, to string) []move {
	moves := make([]move, 0, len(files)+len(markers))
	for _, f := range files {
		moves = append(moves, move{From: f.Path, To: path.Join(to, f.Path), Size: f.Size, Mtime: f.Mtime})
	}
	for _, m := range markers {
		moves = append(moves, move{From: m.Path, To: path.Join(to, m.Path), Any: true})
	}
	return moves
}

// memberFailureMoves returns the moves of one group of a bundle to failed/DAY/id, preceded by the
// creation of REASON.txt with why.
func (a *Agent) memberFailureMoves(b *outgoing, group int, why string, now time.Time) []move {
	others := func(other frozenFile) bool { return other.Group != group }
	files := slices.DeleteFunc(slices.Clone(b.Files), others)
	return failureMoves(files, slices.DeleteFunc(slices.Clone(b.Markers), others), b.Manifest.ID, why, now)
}

// failureMoves returns the moves of files to failed/DAY/id, preceded by the creation of REASON.txt
// with why. id must be unique.
func failureMoves(files, markers []frozenFile, id, why string, now time.Time) []move {
	to := path.Join(failedDir, now.Format(time.DateOnly), id)
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n\n", now.Format(time.RFC3339), why)
	for _, f := range files {
		fmt.Fprintf(&text, "%q\n", f.Path)
	}
	reason := move{To: path.Join(to, reasonName), Text: text.String()}
	return append([]move{reason}, movesOf(files, markers, to)...)
}

// failGroups commits the groups that can never be sent as failed to the agent's state and then
// moves their files to failed/, with a REASON.txt. If it fails in between, the next run finishes
// the moves.
func (a *Agent) failGroups(groups []*group) error {
	for _, g := range groups {
		now, files := time.Now(), make([]frozenFile, len(g.files))
		var size int64
		for n, name := range g.files {
			s := a.observed[name]
			files[n] = frozenFile{Path: name, Size: s.size, Mtime: s.mtime}
			size += s.size
		}
		id := bundle.NewID()
		moves := failureMoves(files, g.markerFiles(0), id, g.failure, now)
		err := a.commit("refuse", func(s *state) {
			s.Moves = slices.Concat(s.Moves, moves)
			s.addEnded(BundleResult{ID: id, Source: a.source, Outcome: Failed, Reason: g.failure, Files: len(files), Size: size, At: now.UTC().Truncate(time.Millisecond)})
			s.Totals.Failed += int64(len(files))
		})
		if err != nil {
			return err
		}
		for _, name := range g.files {
			delete(a.observed, name)
		}
		a.failedFiles += len(files)
		a.log.Error("files moved to failed: they cannot be sent; see REASON.txt there", "to", path.Dir(moves[0].To), "files", len(files), "why", g.failure)
	}
	if len(groups) > 0 {
		return a.runMoves()
	}
	return nil
}

// runMoves executes the pending moves. A failed move stays pending, is shown in the status and
// retried; its file is not sent again. The error is one of the state.
func (a *Agent) runMoves() error {
	if len(a.state.Moves) == 0 {
		return nil
	}
	if !time.Now().Before(a.nextMove) {
		a.moveErr = nil
		clear(a.failedMoves)
	}
	done, dirs := map[string]bool{}, map[string]bool{}
	var failed error // the first error; the others are mostly the same
	for _, m := range a.state.Moves {
		if a.failedMoves[m.To] {
			continue
		}
		err := a.moveOne(m, dirs)
		if errors.Is(err, errCrash) {
			return err
		}
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("move %s to %s: %w", m.From, path.Dir(m.To), err))
			a.failedMoves[m.To] = true
			continue
		}
		done[m.To] = true
	}
	for dir := range dirs { // otherwise a power failure could undo moves that the state no longer lists
		if err := syncDir(a.root, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = fmt.Errorf("make a move durable: %w", err)
			maps.Copy(a.failedMoves, done)
			done = nil
		}
	}
	if failed != nil {
		if a.moveErr == nil {
			a.nextMove = time.Now().Add(retryReadAfter)
		}
		a.moveErr = failed
		a.log.Error("cannot move processed files; trying again in a minute, they are not sent again", "error", a.moveErr)
	}
	if len(done) == 0 {
		return nil
	}
	return a.commit("moved", func(s *state) { s.removeMoves(done) })
}

// moveOne executes one move and adds the changed directories to dirs. It is idempotent, so a crash
// before or after it is harmless. It fails only with an error of the file system. A file that is
// gone or changed stays and is no error.
func (a *Agent) moveOne(m move, dirs map[string]bool) error {
	if m.Text == "" {
		if _, err := a.root.Lstat(m.To); err == nil {
			return nil // moved by an earlier attempt; From is a new file
		}
		info, err := a.root.Lstat(m.From)
		if errors.Is(err, fs.ErrNotExist) {
			a.log.Warn("a processed file is gone; nothing to move", "file", m.From)
			return nil
		}
		if err != nil {
			return err
		}
		if !m.matches(info) {
			a.log.Info("a file changed after it was sent; it stays and is sent again", "file", m.From)
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
	a.undoMove(m)
	return a.hook("move")
}

// makeDirs creates a directory and its parents. It returns them up to the first that existed
// before, inclusive. The caller must sync them. It fails with an error of the file system.
func (a *Agent) makeDirs(dir string) (touched []string, err error) {
	for above := dir; ; above = path.Dir(above) {
		touched = append(touched, above)
		if _, err := a.root.Lstat(above); err == nil || above == "." {
			break
		}
	}
	return touched, a.root.MkdirAll(dir, 0o777)
}

// undoMove moves a file back if it was changed or replaced between the check and the move.
func (a *Agent) undoMove(m move) {
	info, err := a.root.Lstat(m.To)
	if err != nil || m.matches(info) {
		return
	}
	if _, err := a.root.Lstat(m.From); !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("a file changed while being moved and cannot be moved back: its name is used by a new file; copy it back to send it", "file", m.To)
		return
	}
	if err := a.root.Rename(m.To, m.From); err != nil {
		a.log.Warn("a file changed while being moved and cannot be moved back; copy it back to send it", "file", m.To, "error", err)
	}
}

// matches reports whether info describes the file that the move was recorded for.
func (m move) matches(info fs.FileInfo) bool {
	return m.Any || info.Mode().IsRegular() && info.Size() == m.Size && info.ModTime().Equal(m.Mtime)
}
