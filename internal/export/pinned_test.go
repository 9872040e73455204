package export

import (
	"fmt"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// Files that are exported, deleted and replaced repeatedly stay within the quota plus one batch.
func TestPinnedBytesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	w.limit(t, 1000)
	for i := range 4 {
		at := w.put(t, fmt.Sprintf("/in/%d.pdf", i), fmt.Sprintf("%0400d", i))
		in := Request{Nodes: []drive.NodeID{at}}
		if i < 3 {
			w.create(t, e, in)
			w.create(t, e, in) // a content already pinned is not counted twice
			w.finish(t, e)
			w.purge(t, at)
			continue
		}
		_, err := e.Create(t.Context(), w.who, in, nil)
		if !drive.IsKind(err, drive.Quota) {
			t.Errorf("three of 400 bytes are held of 1000, and the next was not refused: %v", err)
		}
	}
	w.check(t)
}
