package client

import (
	"errors"
	"os"
	"path/filepath"
)

// If a run created a folder and all files of the folder are in one stream, it writes the files
// under their final names into a draft: a temporary directory beside the folder, named like a part.
// Once the files are durable, the draft replaces the empty folder: one rename instead of one per
// file, which costs nearly as much as creating the file.
//
// If something was added to the folder meanwhile, the system refuses the rename. The files are then
// moved there one by one.

// createdFolder is a folder that this run created.
type createdFolder struct {
	listed  bool // the listing of the folder is complete
	noDraft bool // its contents are not all in one stream
}

// draft is a temporary directory with the files of a folder; it is to replace the empty folder by
// one rename.
type draft struct {
	folder, path string // paths of the target and of the draft, below the local directory
	files        []int  // its files, as indexes into stream.staged
}

// dropPartialDrafts clears queuedFile.created of all files whose folder also gets files by another
// way.
func dropPartialDrafts(all []queuedFile) {
	for i := range all {
		if m := all[i].created; m != nil && (m.noDraft || !m.listed) {
			m.noDraft = true
			all[i].created = nil
		}
	}
}

// disableDrafts clears queuedFile.created of all files, so that they are written without drafts.
func disableDrafts(all []queuedFile) {
	for i := range all {
		all[i].created = nil
	}
}

// draftOf returns the draft of a folder, creating it for the folder's first file. The files of a
// folder are consecutive. It fails if the directory cannot be created.
func (s *stream) draftOf(folder string) (*draft, error) {
	if n := len(s.drafts); n > 0 && s.drafts[n-1].folder == folder {
		return s.drafts[n-1], nil
	}
	d := &draft{folder: folder, path: filepath.Join(filepath.Dir(folder), s.run.newPartName())}
	if err := s.dirs.root.Mkdir(d.path, 0o777); err != nil { // as the folder was made
		return nil, err
	}
	s.drafts = append(s.drafts, d)
	return d, nil
}

// publishDrafts renames each draft to its folder and makes the renames durable. errs are the errors
// of s.staged, by index; it adds its own there and deletes the files that have one. durable says
// that files without error are durable including their names.
func (c *collector) publishDrafts(s *stream, errs []error, durable bool) {
	within := map[string][]*draft{}
	for _, d := range s.drafts {
		parent := filepath.Dir(d.folder)
		within[parent] = append(within[parent], d)
	}
	for parent, drafts := range within {
		c.publishDraftsIn(parent, drafts, s.staged, errs, durable)
	}
}

// publishDraftsIn makes the drafts below one parent folder replace their folders. If a draft cannot
// replace its folder, its files are moved one by one. It stores the errors in errs.
func (c *collector) publishDraftsIn(parent string, drafts []*draft, all []stagedFile, errs []error, durable bool) {
	at, err := c.root.OpenRoot(parent)
	if err != nil {
		for _, d := range drafts {
			setErrors(d.files, errs, err)
		}
		return
	}
	defer closeQuietly(at)
	var placed []int
	for _, d := range drafts {
		switch count := c.removeFailed(d, all, errs); {
		case count == 0:
		case replaceWithDraft(at, d, count, durable) == nil:
			placed = append(placed, d.files...)
			continue
		default:
			c.renameFiles(d.folder, d.files, all, errs)
			c.removeFailed(d, all, errs)
		}
		c.run.remove(c.root, d.path)
	}
	if len(placed) > 0 {
		setErrors(placed, errs, errors.Join(c.syncNames(at), checkInPlace(c.root, parent, at)))
	}
}

// removeFailed deletes the failed files of a draft and returns how many files are left.
func (c *collector) removeFailed(d *draft, all []stagedFile, errs []error) (whole int) {
	for _, i := range d.files {
		if errs[i] == nil {
			whole++
		} else {
			c.run.remove(c.root, filepath.Join(d.path, all[i].part))
		}
	}
	return whole
}

// errDraftChanged reports that another program added or removed files in a draft.
var errDraftChanged = errors.New("files of a folder on its way were added or removed")

// replaceWithDraft renames a draft of that many files to its folder. Both lie directly in at. It
// returns errDraftChanged if the draft holds another number of files.
func replaceWithDraft(at *os.Root, d *draft, whole int, durable bool) error {
	from := filepath.Base(d.path)
	names, err := readNames(at, from)
	if err == nil && len(names) != whole {
		err = errDraftChanged
	}
	if err == nil && !durable {
		err = syncFolderIn(at, from)
	}
	if err != nil {
		return err
	}
	return replaceFolder(at, from, filepath.Base(d.folder))
}

// setErrors sets errs[i] to err for each i in files that has no error yet.
func setErrors(files []int, errs []error, err error) {
	for _, i := range files {
		if errs[i] == nil {
			errs[i] = err
		}
	}
}
