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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/bundle"
)

// maxDepth is the depth of the directories that are scanned, equal to the maximum depth of a drive.
const maxDepth = drive.MaxDepth

// observation is the state of a file over several scans.
type observation struct {
	size       int64
	mtime      time.Time
	first      time.Time // first scan that found the file
	since      time.Time // first scan that found it with this size and mtime
	looks      int       // scans that found it with this size and mtime
	skipReason string    // why it could not be read
	skipUntil  time.Time // no read attempt before this time
}

// scan walks DIR and updates a.observed and a.skipped. An unreadable subdirectory is skipped; only
// a missing DIR is an error.
func (a *Agent) scan(ctx context.Context) error {
	now, held, found := time.Now(), map[string]string{}, map[string]bool{}
	away := a.taken()
	err := fs.WalkDir(a.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && name == ".":
			return fmt.Errorf("look into %s: %w", a.opt.Dir, err)
		case err != nil:
			held[name] = errorText(err)
			return nil
		case name == ".":
			return nil
		case a.isIgnored(name, entry):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			if strings.Count(name, "/") < maxDepth && utf8.ValidString(name) {
				return nil
			}
			held[name] = "a directory too deep, or whose name is not UTF-8: what is in it is not taken"
			return fs.SkipDir
		case away[name]:
			return nil
		}
		if why := a.observe(name, entry, now); why != "" {
			held[name] = why
		}
		found[name] = true
		return nil
	})
	if err != nil {
		return err
	}
	for name := range a.observed {
		if !found[name] {
			delete(a.observed, name)
		}
	}
	a.skipped = held
	return nil
}

// observe records one file of a scan. It returns why the file is not taken, "" if it may be.
func (a *Agent) observe(name string, entry fs.DirEntry, now time.Time) string {
	if !entry.Type().IsRegular() {
		return "not a regular file"
	}
	info, err := entry.Info()
	if err != nil {
		delete(a.observed, name)
		return errorText(err)
	}
	was := a.observed[name]
	if was == nil || was.size != info.Size() || !was.mtime.Equal(info.ModTime()) {
		next := &observation{size: info.Size(), mtime: info.ModTime(), first: now, since: now}
		if was != nil {
			next.first = was.first
		}
		was, a.observed[name] = next, next
	}
	was.looks++
	if now.Before(was.skipUntil) {
		return was.skipReason
	}
	if was.size == 0 && !a.isMarker(name) {
		return "empty"
	}
	return ""
}

// taken returns the set of paths that a scan must ignore: files and markers of the bundle being
// sent, and those that are still to be moved away.
func (a *Agent) taken() map[string]bool {
	away := make(map[string]bool, len(a.state.Moves))
	for _, m := range a.state.Moves {
		away[m.From] = true
	}
	if b := a.state.Current; b != nil {
		for _, file := range b.Files {
			away[file.Path] = true
		}
		for _, marker := range b.Markers {
			away[marker.Path] = true
		}
	}
	return away
}

// temporary are the suffixes of unfinished files.
var temporary = []string{".tmp", ".temp", ".part", ".partial", ".filepart", ".crdownload", ".download", ".swp", "~"}

// isIgnored reports whether a name is hidden, temporary, matched by Options.Ignore, or one of the
// agent's directories.
func (a *Agent) isIgnored(name string, entry fs.DirEntry) bool {
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

// isMarker reports whether a file is a completion marker; always false if Options.Marker is "".
func (a *Agent) isMarker(name string) bool {
	return a.opt.Marker != "" && strings.HasSuffix(name, a.opt.Marker)
}

// group is the files of one directory with the same stem (the name up to the last dot).
type group struct {
	files      []string // sorted
	markers    []string
	size       int64
	first      time.Time // when the first file was seen
	incomplete bool      // a file is not complete or is skipped
	failure    string    // why it can never be sent; empty: it can
}

// groups returns the complete groups, the oldest first, and the groups that can never be sent.
func (a *Agent) groups() (ready, failed []*group) {
	now, byStem := time.Now(), map[string]*group{}
	for name, s := range a.observed {
		if !a.isMarker(name) {
			g := groupOf(byStem, name)
			a.addToGroup(g, name, s, now)
		}
	}
	if a.opt.Marker != "" {
		a.requireMarkers(byStem)
	}
	for _, g := range byStem {
		slices.Sort(g.files)
		if g.failure == "" && !hasUniqueNames(nil, g) {
			g.failure = "two files that belong together have one name"
		}
		switch {
		case g.incomplete:
		case g.failure != "":
			failed = append(failed, g)
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
	return ready, failed
}

// groupOf returns the group of a file, creating it if missing. Stems are compared in Unicode NFC.
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

// addToGroup adds a file to its group and updates whether the group is complete and can be sent.
func (a *Agent) addToGroup(g *group, name string, s *observation, now time.Time) {
	g.files = append(g.files, name)
	g.size += s.size
	if g.first.IsZero() || s.first.Before(g.first) {
		g.first = s.first
	}
	settled := s.looks > 1 && now.Sub(s.since) >= a.opt.Settle
	if a.skipped[name] != "" || !settled && a.opt.Marker == "" {
		g.incomplete = true
	}
	if err := bundle.CheckName(memberName(name)); err != nil {
		g.failure = err.Error()
	}
	if len(g.files) > maxMembers {
		g.failure = fmt.Sprintf("more than %d files that belong together", maxMembers)
	}
}

// requireMarkers collects the markers of each group, named after the stem or a file, and marks
// groups without one as incomplete.
func (a *Agent) requireMarkers(byStem map[string]*group) {
	for _, g := range byStem {
		for _, name := range g.files {
			for _, marker := range []string{name + a.opt.Marker, strings.TrimSuffix(name, path.Ext(name)) + a.opt.Marker} {
				if a.observed[marker] != nil && !slices.Contains(g.markers, marker) {
					g.markers = append(g.markers, marker)
				}
			}
		}
		g.incomplete = g.incomplete || len(g.markers) == 0
	}
}

// memberName returns the name of a file in its bundle, which has no subfolders.
func memberName(name string) string { return norm.NFC.String(path.Base(name)) }
