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

// downloadRun is the on-disk trace of one GetTree. Its parts and drafts have names that start with
// the run's name. A run file, locked while the run lives, lists the folders that received parts,
// each as strconv.Quote writes it:
//
//	"."
//	"photos/2024"
//
// A later GetTree removes the parts of a run whose file is no longer locked. The run writes a
// folder into the file before it creates parts there, and removes the file when no parts are left.
// If the file cannot be created or locked, dead and live runs cannot be told apart, and the parts
// of a killed run stay.
type downloadRun struct {
	root     *os.Root
	lastPart atomic.Int64 // number of the last part
	leftover atomic.Bool  // a part could not be removed

	once sync.Once
	name string   // prefix of the names of its parts and its file
	file *os.File // the run file; nil: it could not be created
}

// create chooses the run's random name and creates and locks its run file, which marks the partial
// files of a living process. It chooses another name if a concurrent process deletes the file
// meanwhile, at most maxLockTries times. If no file can be created or locked, r.file stays nil.
func (r *downloadRun) create() {
	for try, again := 0, true; again && try < maxLockTries; try++ {
		var id [8]byte
		_, _ = rand.Read(id[:]) // it does not fail
		r.name = tempPrefix + hex.EncodeToString(id[:])
		again = r.createFile(r.name + ".run")
	}
}

// createFile creates and locks the run file. again reports that another process removed the file
// before it was locked; try another name.
func (r *downloadRun) createFile(name string) (again bool) {
	f, err := r.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666)
	if err != nil {
		return false
	}
	switch g, err := tryLock(r.root, name, f); {
	case err == nil && g == lockAcquired:
		r.file = f
		return false
	case err == nil && g != lockUnsupported:
		again = true
	}
	_ = r.root.Remove(name) // an unlocked run file would be useless
	closeQuietly(f)
	return again
}

// recordFolders writes the folders of the files into the run file, before parts are created there.
func (r *downloadRun) recordFolders(all []queuedFile) {
	r.once.Do(r.create)
	if r.file == nil {
		return
	}
	lines, last, beside := []byte{'\n'}, "", "" // starts a new line after one that a full disk truncated
	for _, f := range all {
		dir := filepath.Dir(f.rel)
		if dir != last {
			lines = append(strconv.AppendQuote(lines, dir), '\n') // parts go there if the draft cannot replace the folder
			last = dir
		}
		if parent := filepath.Dir(dir); f.created != nil && parent != beside {
			lines = append(strconv.AppendQuote(lines, parent), '\n')
			beside = parent
		}
	}
	_, _ = r.file.Write(lines) // if the disk is full, no part can be created either
}

// newPartName returns an unused name for a part or draft.
func (r *downloadRun) newPartName() string { return runPartName(r.name, r.lastPart.Add(1)) }

// remove deletes a partial file or an empty folder that will not be renamed to its final name. If
// that fails, the run file stays, so that a later run deletes both.
func (r *downloadRun) remove(dir *os.Root, part string) {
	if err := dir.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.leftover.Store(true)
	}
}

// close unlocks the run file and deletes it, unless a partial file is left over. Without a run file
// it does nothing.
func (r *downloadRun) close() {
	if r.file == nil {
		return
	}
	if !r.leftover.Load() {
		_ = r.root.Remove(r.name + ".run") // if this fails, the next run removes it
	}
	closeQuietly(r.file)
}

// removeDeadRuns deletes the partial files and run files below root that processes left which were
// killed. Runs of living processes are not touched. It ignores errors; a later run tries again.
func removeDeadRuns(root *os.Root) {
	names, err := readNames(root, ".")
	if err != nil {
		return
	}
	for _, name := range names {
		if own := runFileName.FindStringSubmatch(name); own != nil {
			removeDeadRun(root, own[1], name)
		}
	}
}

// removeDeadRun deletes the parts of the run that starts with own, and then its run file name,
// unless the run is alive.
func removeDeadRun(root *os.Root, own, name string) {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return
	}
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer closeQuietly(f)
	if g, err := tryLock(root, name, f); err != nil || g != lockAcquired {
		return
	}
	raw, err := io.ReadAll(f)
	clean, done := err == nil, map[string]bool{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		dir, err := strconv.Unquote(line)
		if err != nil || done[dir] {
			continue // truncated line: no part was created
		}
		done[dir] = true
		clean = removeRunParts(root, own, dir) && clean
	}
	if clean {
		_ = root.Remove(name) // if this fails, the next run tries again
	}
}

// removeRunParts deletes the parts and drafts of a dead run in one folder. clean reports that none
// is left.
func removeRunParts(root *os.Root, own, dir string) (clean bool) {
	names, err := readNames(root, dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	clean = true
	for _, name := range names {
		if strings.HasPrefix(name, own+"-") && isTempName(name) {
			err := removePartOrDraft(root, filepath.Join(dir, name))
			clean = clean && (err == nil || errors.Is(err, fs.ErrNotExist))
		}
	}
	return clean
}

// removePartOrDraft deletes a part, or a draft and its files. It addresses each file by the draft's
// path: if the run is alive after all and has renamed the draft to its folder, the files are no
// longer found and stay. All failures are returned joined.
func removePartOrDraft(root *os.Root, path string) error {
	if info, err := root.Lstat(path); err != nil || !info.IsDir() {
		return root.Remove(path)
	}
	names, err := readNames(root, path)
	for _, name := range names {
		err = errors.Join(err, root.Remove(filepath.Join(path, name)))
	}
	return errors.Join(err, root.Remove(path))
}

// readNames returns all names in a directory, unsorted. It fails if the directory cannot be opened
// or read.
func readNames(root *os.Root, dir string) ([]string, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer closeQuietly(f)
	return f.Readdirnames(-1)
}
