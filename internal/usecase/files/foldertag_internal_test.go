package files

import (
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// Marks of one account too many cost another account its own, and not all of them.
func TestMarksOfOneTooMany(t *testing.T) {
	t.Parallel()
	marks := make(map[drive.NodeID]tree.Mark, maxMarked/4)
	for len(marks) < maxMarked/4 {
		marks[drive.NewID[drive.NodeID]()] = tree.Mark{}
	}
	tags := NewFolderTags(nil)
	for range 10 {
		account := drive.NewID[drive.AccountID]()
		for range 2 { // the second time in the place of the first
			tags.keep(account, &accountMarks{of: marks})
		}
		if tags.known[account] == nil || tags.folders != len(tags.known)*len(marks) || tags.folders > maxMarked {
			t.Fatalf("%d accounts with %d folders", len(tags.known), tags.folders)
		}
	}
	if len(tags.known) != 4 {
		t.Errorf("the marks of %d accounts are remembered, and there is room for 4", len(tags.known))
	}
}
