package upload

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// The order check reports violations.
func TestLockOrderViolationIsReported(t *testing.T) {
	t.Parallel()
	a, b := drive.NewID[drive.UploadID](), drive.NewID[drive.UploadID]()
	for _, c := range []struct {
		name  string
		locks []heldLock
		wrong int
	}{
		{"all of one upload", []heldLock{{a, rankAppending}, {a, rankState}, {a, rankWriting}, {a, rankGrowing}}, 0},
		{"several parts", []heldLock{{a, rankAppending}, {a, rankWriting}, {a, rankWriting}}, 0},
		{"one upload after the other", []heldLock{{a, rankAppending}, {a, rankState}, {b, rankAppending}, {b, rankState}}, 0},
		{"the turn first", []heldLock{{a, rankState}, {a, rankAppending}}, 1},
		{"the turn while a part is written", []heldLock{{a, rankWriting}, {a, rankState}}, 1},
		{"the turn twice", []heldLock{{a, rankState}, {a, rankState}}, 1},
		{"the younger upload first", []heldLock{{b, rankState}, {a, rankAppending}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reports := 0
			o := &lockOrder{report: func(string) { reports++ }, held: map[uint64][]heldLock{}}
			for _, l := range c.locks {
				o.acquire(l.id, l.rank)
			}
			for _, l := range c.locks {
				o.release(l.id, l.rank)
			}
			if reports != c.wrong || len(o.held) > 0 {
				t.Errorf("%d reports, want %d; %d goroutines hold something", reports, c.wrong, len(o.held))
			}
			o.release(a, rankState)
			if reports != c.wrong+1 {
				t.Error("what is not held was given back, and nobody said so")
			}
		})
	}
}

// The methods of a liveUpload record their locks with the check.
func TestLiveUploadRecordsLocks(t *testing.T) {
	t.Parallel()
	reports := 0
	table := liveTable{all: map[drive.UploadID]*liveUpload{}, order: &lockOrder{report: func(string) { reports++ }, held: map[uint64][]heldLock{}}}
	l := table.acquire(drive.NewID[drive.UploadID]())
	defer table.release(l)
	inOrder := func() {
		end, err := l.lockAppend(t.Context(), func() {})
		if err == nil {
			err = l.lockState(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		l.unlockState()
		end()
	}
	if inOrder(); reports != 0 {
		t.Errorf("%d reports of what is in order", reports)
	}
	if err := l.lockState(t.Context()); err != nil {
		t.Fatal(err)
	}
	end, err := l.lockAppend(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	end()
	l.unlockState()
	if reports != 1 {
		t.Errorf("%d reports of a turn that was taken first", reports)
	}
	if inOrder(); reports != 1 {
		t.Errorf("%d reports, and it is in order again", reports)
	}
}
