package export

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/export/zipline"
)

// The total length of names and paths is limited, not only their number.
func TestListTextIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	add := func(entry listEntry) (n int, err error) {
		walk := listBuilder{creator: e.creator}
		for err == nil && n < 10_000 {
			err = walk.add(entry)
			n++
		}
		return n, err
	}
	long := strings.Repeat("n", 4000)
	for what, c := range map[string]struct {
		upTo  int64
		entry listEntry
		bytes int64 // per counted entry
	}{
		"names": {maxListText, listEntry{Name: long}, 4000},
		"paths": {maxListText, listEntry{Path: long}, 4000},
	} {
		n, err := add(c.entry)
		if !drive.IsKind(err, drive.TooLarge) || int64(n)*c.bytes <= c.upTo || int64(n-1)*c.bytes > c.upTo {
			t.Errorf("%s: entry %d: %v", what, n, err)
		}
	}
	if n, err := add(listEntry{Name: long[:200], Path: long[:400]}); err != nil {
		t.Errorf("entry %d of usual length: %v", n, err)
	}
	const fit = int(maxListNames / 4000)
	if pieces, err := e.lists.split(slices.Repeat([]listEntry{{Name: long}}, fit+1)); err != nil || len(pieces) != 2 || len(pieces[0]) > fit {
		t.Errorf("%d long names become %d lists", fit+1, len(pieces))
	}
}

// The names of a direct zip are limited, too.
func TestDirectNamesAreLimited(t *testing.T) {
	t.Parallel()
	p := plan{sender: newWorld(t).process(nil, "a").sender}
	long := planNode{name: drive.Name(strings.Repeat("n", drive.MaxNameBytes))}
	in := strings.Repeat("d", 3744)
	const most = int(directNames) / 4000
	if err := p.addTree(slices.Repeat([]planNode{long}, most), in); err != nil {
		t.Fatal(err)
	}
	if err := p.addTree([]planNode{long}, in); !drive.IsKind(err, drive.TooLarge) {
		t.Errorf("a name more: %v", err)
	}
}

// The layout cache is limited by size and always keeps the last layout.
func TestLargeLayoutsEvictOthers(t *testing.T) {
	t.Parallel()
	var c layoutCache
	folders := strings.Repeat(strings.Repeat("n", 199)+"/", 5)
	layout := func(names int) *zipline.Archive {
		var entries []zipline.Entry
		for i := range names {
			entries = append(entries, zipline.Entry{Name: fmt.Sprintf("%s%06d", folders, i)})
		}
		a, err := zipline.Layout(entries)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	const some = maxCachedMemory / 3 / (1006 + entryMemory)
	for _, n := range []int{some, some, some, some} {
		c.put(drive.NewID[drive.ExportID](), layout(n))
	}
	if len(c.layouts) != 3 {
		t.Errorf("%d are kept", len(c.layouts))
	}
	last := drive.NewID[drive.ExportID]()
	c.put(last, layout(4*some))
	if len(c.layouts) != 1 || c.layouts[0].id != last {
		t.Errorf("beside the largest %d are kept", len(c.layouts)-1)
	}
}
