package export

import (
	"fmt"
	"testing"

	"smartdrive/internal/base/drive"
)

// What is exported, deleted and replaced again and again stays within what an account may have, and
// one batch more.
func TestBatchesDoNotHoldMoreThanTheAccountMayHave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	w.limit(t, 1000)
	for i := range 4 {
		at := w.put(t, fmt.Sprintf("/in/%d.pdf", i), fmt.Sprintf("%0400d", i))
		in := Request{Nodes: []drive.NodeID{at}}
		if i < 3 {
			w.create(t, e, in)
			w.create(t, e, in) // what is held already is not counted twice
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
