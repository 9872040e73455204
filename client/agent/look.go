package agent

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/intake/bundle"
)

// mostDepth is how many directories deep files are looked for: as deep as a drive is.
const mostDepth = drive.MaxDepth

// seen is a file as the looks found it.
type seen struct {
	size   int64
	mtime  time.Time
	first  time.Time // the first look that found it at all
	since  time.Time // the first look that found it like this
	looks  int       // that found it like this
	why    string    // it could not be read, and why
	asleep time.Time // until then it is not tried again
}

// look finds what is there. A directory that cannot be read is told of and left out; only that DIR
// itself is gone is an error.
func (a *Agent) look(ctx context.Context) error {
	now, held, found := time.Now(), map[string]string{}, map[string]bool{}
	away := a.away()
	err := fs.WalkDir(a.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && name == ".":
			return fmt.Errorf("look into %s: %w", a.opt.Dir, err)
		case err != nil:
			held[name] = reason(err)
			return nil
		case name == ".":
			return nil
		case a.ignored(name, entry):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			if strings.Count(name, "/") < mostDepth && utf8.ValidString(name) {
				return nil
			}
			held[name] = "a directory too deep, or whose name is not UTF-8: what is in it is not taken"
			return fs.SkipDir
		case away[name]:
			return nil
		}
		if why := a.see(name, entry, now); why != "" {
			held[name] = why
		}
		found[name] = true
		return nil
	})
	if err != nil {
		return err
	}
	for name := range a.seen {
		if !found[name] {
			delete(a.seen, name)
		}
	}
	a.held = held
	return nil
}

// see notes what a look found, and says why a file is not taken.
func (a *Agent) see(name string, entry fs.DirEntry, now time.Time) string {
	if !entry.Type().IsRegular() {
		return "not a regular file"
	}
	info, err := entry.Info()
	if err != nil {
		delete(a.seen, name)
		return reason(err)
	}
	was := a.seen[name]
	if was == nil || was.size != info.Size() || !was.mtime.Equal(info.ModTime()) {
		next := &seen{size: info.Size(), mtime: info.ModTime(), first: now, since: now}
		if was != nil {
			next.first = was.first
		}
		was, a.seen[name] = next, next
	}
	was.looks++
	if now.Before(was.asleep) {
		return was.why
	}
	if was.size == 0 && !a.isMarker(name) {
		return "empty"
	}
	return ""
}

// away are the files that are in the bundle on its way, or about to be moved.
func (a *Agent) away() map[string]bool {
	away := make(map[string]bool, len(a.state.Moves))
	for _, m := range a.state.Moves {
		away[m.From] = true
	}
	if f := a.state.Current; f != nil {
		for _, file := range f.Files {
			away[file.Path] = true
		}
		for _, marker := range f.Markers {
			away[marker.Path] = true
		}
	}
	return away
}

// temporary are the endings by which programs mark what they have not finished.
var temporary = []string{".tmp", ".temp", ".part", ".partial", ".filepart", ".crdownload", ".download", ".swp", "~"}

// ignored are hidden and temporary names, what the user named, and the agent's own directories.
func (a *Agent) ignored(name string, entry fs.DirEntry) bool {
	if name == sentDir || name == failedDir {
		return true
	}
	base := path.Base(name)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "~$") {
		return true
	}
	for _, pattern := range a.opt.Ignore {
		if hit, _ := path.Match(pattern, base); hit { // the patterns were checked
			return true
		}
	}
	lower := strings.ToLower(base)
	return !entry.IsDir() && slices.ContainsFunc(temporary, func(end string) bool { return strings.HasSuffix(lower, end) })
}

func (a *Agent) isMarker(name string) bool {
	return a.opt.Marker != "" && strings.HasSuffix(name, a.opt.Marker)
}

// group are the files of one directory with one stem.
type group struct {
	files   []string // sorted
	markers []string
	size    int64
	first   time.Time // when the first of them was seen
	open    bool      // one of them is not complete, or not to be taken
	never   string    // why it never can be sent
}

// groups returns what may be taken, those that wait the longest first, and those that never can be
// sent.
func (a *Agent) groups() (ready, never []*group) {
	now, byStem := time.Now(), map[string]*group{}
	for name, s := range a.seen {
		if !a.isMarker(name) {
			g := groupOf(byStem, name)
			a.join(g, name, s, now)
		}
	}
	if a.opt.Marker != "" {
		a.mark(byStem)
	}
	for _, g := range byStem {
		slices.Sort(g.files)
		if g.never == "" && !fits(nil, g) {
			g.never = "two files that belong together have one name"
		}
		switch {
		case g.open:
		case g.never != "":
			never = append(never, g)
		default:
			ready = append(ready, g)
		}
	}
	slices.SortFunc(ready, func(x, y *group) int {
		if c := x.first.Compare(y.first); c != 0 {
			return c
		}
		return strings.Compare(x.files[0], y.files[0])
	})
	return ready, never
}

// groupOf returns the group of a file. Its stem may be written in several ways, but a directory is
// another one.
func groupOf(byStem map[string]*group, name string) *group {
	dir, base := path.Split(name)
	stem := dir + norm.NFC.String(strings.TrimSuffix(base, path.Ext(base)))
	g := byStem[stem]
	if g == nil {
		g = new(group)
		byStem[stem] = g
	}
	return g
}

// join adds a file to its group.
func (a *Agent) join(g *group, name string, s *seen, now time.Time) {
	g.files = append(g.files, name)
	g.size += s.size
	if g.first.IsZero() || s.first.Before(g.first) {
		g.first = s.first
	}
	settled := s.looks > 1 && now.Sub(s.since) >= a.opt.Settle
	if a.held[name] != "" || !settled && a.opt.Marker == "" {
		g.open = true
	}
	if err := bundle.CheckName(memberName(name)); err != nil {
		g.never = err.Error()
	}
	if len(g.files) > mostFiles {
		g.never = fmt.Sprintf("more than %d files that belong together", mostFiles)
	}
}

// mark opens the groups that have no marker: one named after the stem, or after one of the files.
func (a *Agent) mark(byStem map[string]*group) {
	for _, g := range byStem {
		for _, name := range g.files {
			for _, marker := range []string{name + a.opt.Marker, strings.TrimSuffix(name, path.Ext(name)) + a.opt.Marker} {
				if a.seen[marker] != nil && !slices.Contains(g.markers, marker) {
					g.markers = append(g.markers, marker)
				}
			}
		}
		g.open = g.open || len(g.markers) == 0
	}
}

// memberName is the name that a file gets in its bundle: bundles are flat.
func memberName(name string) string { return norm.NFC.String(path.Base(name)) }
