package client

import (
	"errors"
	"os"
	"path/filepath"
)

// A folder that a run has made, and all of whose files come in one stream, gets them at once. They
// come under their own names into a draft of the folder, which lies beside it under the name of a
// part. Once they are durable the draft takes the place of the folder: one rename instead of one
// for each file, which costs nearly as much as making it.
//
// The system refuses that where something has come into the folder. Its files are then moved there
// one by one.

// made is a folder that this run has made.
type made struct {
	listed bool // all that is in it is known
	mixed  bool // what is in it does not come in one stream
}

// draft is a folder on its way.
type draft struct {
	folder, path string // where it belongs and where it is, below the local folder
	files        []int  // that are in it, by their places among those that came
}

// chooseDrafts leaves those files of a stream without a draft whose folders get others by another
// way.
func chooseDrafts(all []wanted) {
	for i := range all {
		if m := all[i].made; m != nil && (m.mixed || !m.listed) {
			m.mixed = true
			all[i].made = nil
		}
	}
}

// noDrafts is for files whose folders have got others.
func noDrafts(all []wanted) {
	for i := range all {
		all[i].made = nil
	}
}

// draftOf returns the draft of a folder, which it makes for the first file. The files of a folder
// follow each other.
func (s *stream) draftOf(folder string) (*draft, error) {
	if n := len(s.drafts); n > 0 && s.drafts[n-1].folder == folder {
		return s.drafts[n-1], nil
	}
	d := &draft{folder: folder, path: filepath.Join(filepath.Dir(folder), s.run.part())}
	if err := s.at.root.Mkdir(d.path, 0o777); err != nil { // as the folder was made
		return nil, err
	}
	s.drafts = append(s.drafts, d)
	return d, nil
}

// place puts drafts where they belong and makes that durable. durable: what is in them is so with
// its names, where it has no error.
func (c *collector) place(s *stream, errs []error, durable bool) {
	within := map[string][]*draft{}
	for _, d := range s.drafts {
		parent := filepath.Dir(d.folder)
		within[parent] = append(within[parent], d)
	}
	for parent, drafts := range within {
		c.placeIn(parent, drafts, s.here, errs, durable)
	}
}

// placeIn is place for the drafts in one folder.
func (c *collector) placeIn(parent string, drafts []*draft, all []arrived, errs []error, durable bool) {
	at, err := c.root.OpenRoot(parent)
	if err != nil {
		for _, d := range drafts {
			fail(d.files, errs, err)
		}
		return
	}
	defer letGo(at)
	var placed []int
	for _, d := range drafts {
		switch whole := c.strip(d, all, errs); {
		case whole == 0:
		case replace(at, d, whole, durable) == nil:
			placed = append(placed, d.files...)
			continue
		default:
			c.name(d.folder, d.files, all, errs)
			c.strip(d, all, errs)
		}
		c.run.remove(c.root, d.path)
	}
	if len(placed) > 0 {
		fail(placed, errs, errors.Join(c.syncNames(at), stays(c.root, parent, at)))
	}
}

// strip removes the files from a draft that have failed, and returns how many are left.
func (c *collector) strip(d *draft, all []arrived, errs []error) (whole int) {
	for _, i := range d.files {
		if errs[i] == nil {
			whole++
		} else {
			c.run.remove(c.root, filepath.Join(d.path, all[i].part))
		}
	}
	return whole
}

// errOtherFiles is a draft that has not got the files that came into it.
var errOtherFiles = errors.New("files of a folder on its way were added or removed")

// replace puts a draft in the place of its folder. Both are in at.
func replace(at *os.Root, d *draft, whole int, durable bool) error {
	from := filepath.Base(d.path)
	names, err := namesIn(at, from)
	if err == nil && len(names) != whole {
		err = errOtherFiles
	}
	if err == nil && !durable {
		err = syncFolderIn(at, from)
	}
	if err != nil {
		return err
	}
	return replaceFolder(at, from, filepath.Base(d.folder))
}

// fail notes an error of files that have none.
func fail(files []int, errs []error, err error) {
	for _, i := range files {
		if errs[i] == nil {
			errs[i] = err
		}
	}
}
