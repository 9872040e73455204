package stream

import "time"

// window holds what was polled and is not settled, in the order of Poll.
type window struct {
	items   []*item
	running map[string]int // handlers at work for each key
}

type state uint8

const (
	waiting state = iota // not handed over, or handed over in an outage
	atWork
	done
)

type item struct {
	Delivery
	state state
	out   Outcome
	since time.Time // done since
}

// lane is what is settled in order.
type lane struct {
	retry     bool
	partition int32
}

func (it *item) lane() lane { return lane{it.Retry, it.Position.Partition} }

func (w *window) add(batch []Delivery) {
	for _, d := range batch {
		w.items = append(w.items, &item{Delivery: d})
	}
}

// next returns the first record that may be handed over: one whose key has fewer than perKey
// handlers at work. Records without a key do not wait for each other.
func (w *window) next(perKey int) *item {
	for _, it := range w.items {
		if it.state == waiting && (it.Key == "" || w.running[it.Key] < perKey) {
			return it
		}
	}
	return nil
}

func (w *window) begin(it *item) {
	if w.running == nil {
		w.running = map[string]int{}
	}
	it.state = atWork
	w.running[it.Key]++
}

func (w *window) end(it *item, s state) {
	it.state = s
	switch n := w.running[it.Key]; {
	case n > 1:
		w.running[it.Key] = n - 1
	default: // the last one, or the window was abandoned meanwhile
		delete(w.running, it.Key)
	}
}

func (w *window) count(s state) (n int) {
	for _, it := range w.items {
		if it.state == s {
			n++
		}
	}
	return n
}

// settleable returns what may be settled, in the order of Poll: of each lane the records before the
// first that is not done.
func (w *window) settleable() []*item {
	var ready []*item
	open := map[lane]bool{}
	for _, it := range w.items {
		switch {
		case it.state != done:
			open[it.lane()] = true
		case !open[it.lane()]:
			ready = append(ready, it)
		}
	}
	return ready
}

func (w *window) remove(gone func(*item) bool) {
	kept := w.items[:0]
	for _, it := range w.items {
		if !gone(it) {
			kept = append(kept, it)
		}
	}
	clear(w.items[len(kept):])
	w.items = kept
}

// putOff ends the wait of records whose keys are busy, so that those of others can come into the
// window once what is at work before them is settled. They come again after the first level, with
// no failure on their account.
func (w *window) putOff(level Level, now time.Time) (n int) {
	for _, it := range w.items {
		if it.state == waiting {
			it.state, it.since = done, now
			it.out = Outcome{Delivery: it.Delivery, Verdict: Delay, Level: level}
			n++
		}
	}
	return n
}
