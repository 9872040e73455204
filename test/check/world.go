package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"example.org/smartdrive/test/history"
)

// file is a file as a client knows it.
type file struct {
	node     string // "" if no response has named it
	path     string
	contents []history.Content // its versions, oldest first
}

// last returns the current content.
func (f file) last() history.Content { return f.contents[len(f.contents)-1] }

// world is one possible state of a client's files. Worlds are immutable.
type world struct {
	live  map[string]file // by path
	trash map[string]file // by node
}

func newWorld() world { return world{map[string]file{}, map[string]file{}} }

func (w world) clone() world { return world{maps.Clone(w.live), maps.Clone(w.trash)} }

// after returns the world after a change; ok is false if the change is impossible in w.
func (w world) after(r history.Record) (next world, ok bool) {
	next = w.clone()
	f, there := w.live[r.Path]
	if there && r.Node != "" && f.node != "" && f.node != r.Node && r.Do != history.Restore {
		return w, false
	}
	switch r.Do {
	case history.Put, history.Begin, history.Prove, history.Complete:
		if f.path = r.Path; r.Node != "" {
			f.node = r.Node
		}
		f.contents = append(slices.Clone(f.contents), history.Content{Seed: r.Seed, Size: r.Size})
		next.live[r.Path] = f
		return next, true
	case history.Move:
		_, taken := w.live[r.To]
		delete(next.live, r.Path)
		f.path = r.To
		next.live[r.To] = f
		return next, there && !taken
	case history.Trash:
		delete(next.live, r.Path)
		next.trash[r.Node] = f
		return next, there
	case history.Delete:
		delete(next.live, r.Path)
		return next, there
	case history.Restore:
		f, trashed := w.trash[r.Node]
		delete(next.trash, r.Node)
		next.live[r.Path] = f
		return next, trashed && !there
	case history.Purge:
		_, trashed := w.trash[r.Node]
		delete(next.trash, r.Node)
		return next, trashed
	default:
		return w, false
	}
}

// agrees returns w with the details that a client observed; ok is false if the observation
// contradicts w.
func (w world) agrees(r history.Record) (next world, ok bool) {
	switch r.Do {
	case history.LookPath:
		f, there := w.live[r.Path]
		if !there || r.Node == "" {
			return w, !there && r.Node == ""
		}
		if f.node != "" && f.node != r.Node || digestOf(f.last()) != r.Digest {
			return w, false
		}
		next, f.node = w.clone(), r.Node
		next.live[r.Path] = f
		return next, true
	case history.LookNode:
		_, trashed := w.trash[r.Node]
		live := slices.ContainsFunc(slices.Collect(maps.Values(w.live)), func(f file) bool { return f.node == r.Node })
		return w, trashed == r.Trashed && (trashed || live) == (r.State != "none")
	default:
		return w, true
	}
}

// digests caches digests, because the same contents are compared repeatedly.
var digests = map[history.Content]string{}

func digestOf(c history.Content) string {
	d, ok := digests[c]
	if !ok {
		d = c.Digest()
		digests[c] = d
	}
	return d
}

// describe returns w as text for messages.
func (w world) describe() string {
	var lines []string
	for path, f := range w.live {
		lines = append(lines, fmt.Sprintf("%s (node %q): %v", path, f.node, f.contents))
	}
	for node, f := range w.trash {
		lines = append(lines, fmt.Sprintf("trash: %s (node %q): %v", f.path, node, f.contents))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
