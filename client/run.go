package client

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// run is a GetTree as others of the same local folder see it. Its parts have names of its own. What
// a run that was killed has left is known by its file, which nobody locks any more:
//
//	"."
//	"photos/2024"     a folder that parts or drafts came into, as strconv.Quote writes it
//
// The file is made, locked and told of a folder before there is a part, and removed when there are
// no more. Where it cannot be made or locked, nobody tells a dead run from one that lives: its
// parts stay.
type run struct {
	root *os.Root
	next atomic.Int64 // number of the next part
	left atomic.Bool  // a part could not be removed

	once sync.Once
	name string   // what its parts and its file begin with
	file *os.File // nil: there is none
}

// begin names the run, and makes and locks its file.
func (r *run) begin() {
	for try, again := 0, true; again && try < gripTries; try++ {
		var id [8]byte
		_, _ = rand.Read(id[:]) // it does not fail
		r.name = ownPrefix + hex.EncodeToString(id[:])
		again = r.hold(r.name + ".run")
	}
}

// hold makes the run's file. again: it was taken for a dead run's before it was locked.
func (r *run) hold(name string) (again bool) {
	f, err := r.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666)
	if err != nil {
		return false
	}
	switch g, err := gripOn(r.root, name, f); {
	case err == nil && g == gripMine:
		r.file = f
		return false
	case err == nil && g != gripUnknown:
		again = true
	}
	_ = r.root.Remove(name) // it would be of no use
	letGo(f)
	return again
}

// expect notes the folders of files before parts of them come.
func (r *run) expect(all []wanted) {
	r.once.Do(r.begin)
	if r.file == nil {
		return
	}
	lines, last, beside := []byte{'\n'}, "", "" // behind what a full disk has cut
	for _, f := range all {
		dir := filepath.Dir(f.rel)
		if dir != last {
			lines = append(strconv.AppendQuote(lines, dir), '\n') // parts come there if the draft cannot take its place
			last = dir
		}
		if parent := filepath.Dir(dir); f.made != nil && parent != beside {
			lines = append(strconv.AppendQuote(lines, parent), '\n')
			beside = parent
		}
	}
	_, _ = r.file.Write(lines) // a disk that is full takes no parts either
}

// part returns the name of another part or draft.
func (r *run) part() string { return numbered(r.name, r.next.Add(1)) }

// remove removes a part or an empty draft that gets no other name.
func (r *run) remove(dir *os.Root, part string) {
	if err := dir.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.left.Store(true)
	}
}

// end removes the run's file, unless there is a part that somebody may yet remove.
func (r *run) end() {
	if r.file == nil {
		return
	}
	if !r.left.Load() {
		_ = r.root.Remove(r.name + ".run") // the next run takes it for a dead one's, and removes it
	}
	letGo(r.file)
}

// sweep removes what dead runs have left below a folder.
func sweep(root *os.Root) {
	names, err := namesIn(root, ".")
	if err != nil {
		return
	}
	for _, name := range names {
		if own := runName.FindStringSubmatch(name); own != nil {
			sweepRun(root, own[1], name)
		}
	}
}

// sweepRun removes what a run has left, if it is dead.
func sweepRun(root *os.Root, own, name string) {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return
	}
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer letGo(f)
	if g, err := gripOn(root, name, f); err != nil || g != gripMine {
		return
	}
	raw, err := io.ReadAll(f)
	clean, done := err == nil, map[string]bool{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		dir, err := strconv.Unquote(line)
		if err != nil || done[dir] {
			continue // it was cut, and no part came
		}
		done[dir] = true
		clean = sweepFolder(root, own, dir) && clean
	}
	if clean {
		_ = root.Remove(name) // the next run tries again
	}
}

// sweepFolder removes the parts and drafts of a dead run from a folder, and reports whether none is
// left.
func sweepFolder(root *os.Root, own, dir string) (clean bool) {
	names, err := namesIn(root, dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	clean = true
	for _, name := range names {
		if strings.HasPrefix(name, own+"-") && isOwn(name) {
			err := removeLeft(root, filepath.Join(dir, name))
			clean = clean && (err == nil || errors.Is(err, fs.ErrNotExist))
		}
	}
	return clean
}

// removeLeft removes a part or a draft. The files of a draft are looked up by its name each time:
// under its folder's name they are not touched, should its run be alive where locks do not work.
func removeLeft(root *os.Root, path string) error {
	if info, err := root.Lstat(path); err != nil || !info.IsDir() {
		return root.Remove(path)
	}
	names, err := namesIn(root, path)
	for _, name := range names {
		err = errors.Join(err, root.Remove(filepath.Join(path, name)))
	}
	return errors.Join(err, root.Remove(path))
}

func namesIn(root *os.Root, dir string) ([]string, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer letGo(f)
	return f.Readdirnames(-1)
}
