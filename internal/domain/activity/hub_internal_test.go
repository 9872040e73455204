package activity

import (
	"slices"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

func (w *Watch) ready() bool {
	select {
	case <-w.Ready:
		return true
	default:
		return false
	}
}

// TestWatchIsNotifiedOnceUntilDrained: a watch is notified once until it is drained and then again;
// watches of other accounts are not notified.
func TestWatchIsNotifiedOnceUntilDrained(t *testing.T) {
	t.Parallel()
	a, b := drive.NewID[drive.AccountID](), drive.NewID[drive.AccountID]()
	l := &Log{}
	w, other, every := l.Watch(a, b, a), l.Watch(b), l.Watch()
	for range 2 {
		for range 3 {
			l.hub.announce(a)
		}
		if !w.ready() || w.ready() || other.ready() || !every.ready() {
			t.Error("three entries are not one thing to look at for those who wait for them")
		}
		if got := w.Drain(); !slices.Equal(got, []drive.AccountID{a}) || len(w.Drain()) != 0 {
			t.Errorf("to look at is %v", got)
		}
	}
	l.hub.announce(a) // before draining
	w.Drain()
	l.hub.announce(b)
	if got := w.Drain(); !slices.Equal(got, []drive.AccountID{b}) {
		t.Errorf("after another one %v", got)
	}
	for _, one := range []*Watch{w, other, every} {
		one.Close()
	}
	if len(l.hub.topics) != 0 || len(l.hub.all) != 0 {
		t.Errorf("left: %d accounts, %d watches of all", len(l.hub.topics), len(l.hub.all))
	}
}

// TestNoNotificationIsLost: watches that drain, start or close concurrently with notifications miss
// none.
func TestNoNotificationIsLost(t *testing.T) {
	t.Parallel()
	id := drive.NewID[drive.AccountID]()
	l := &Log{}
	var mu sync.Mutex
	committed := 0
	const entries = 500
	var all sync.WaitGroup
	for range 8 {
		w := l.Watch(id)
		all.Go(func() {
			defer w.Close()
			for seen := 0; seen < entries; {
				<-w.Ready
				if len(w.Drain()) > 0 {
					mu.Lock()
					seen = committed
					mu.Unlock()
				}
			}
		})
	}
	for range entries {
		mu.Lock()
		committed++
		mu.Unlock()
		l.hub.announce(id)
		l.Watch(id).Close()
	}
	all.Wait()
}
