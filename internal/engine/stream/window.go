package stream

import "time"

// window holds the polled and unsettled records in the order of Poll.
type window struct {
	items   []*item        // in the order of Poll
	running map[string]int // running handlers by key
}

// state is the progress of a record in the window.
type state uint8

const (
	waiting state = iota // not started, or to be repeated after an outage
	running              // its handler runs
	done                 // handled, and not settled yet
)

// item is a record in the window, with the progress and result of its handler.
type item struct {
	Delivery
	state  state
	out    Outcome   // valid once state is done
	doneAt time.Time // when state became done
}

// sequence identifies the records that are settled in order.
type sequence struct {
	retry     bool // the log of retries, not that of the topic
	partition int32
}

// sequence returns the sequence of the record.
func (it *item) sequence() sequence { return sequence{it.Retry, it.Position.Partition} }

// add appends polled records in the state waiting.
func (w *window) add(batch []Delivery) {
	for _, d := range batch {
		w.items = append(w.items, &item{Delivery: d})
	}
}

// next returns the first record that may start: a waiting one whose key has fewer than perKey
// running handlers. Records without a key are independent. It returns nil if there is none.
func (w *window) next(perKey int) *item {
	for _, it := range w.items {
		if it.state == waiting && (it.Key == "" || w.running[it.Key] < perKey) {
			return it
		}
	}
	return nil
}

// begin sets the state of a record to running, which keeps next from returning a record of the same
// key.
func (w *window) begin(it *item) {
	if w.running == nil {
		w.running = map[string]int{}
	}
	it.state = running
	w.running[it.Key]++
}

// end sets the state of a running record to s. If no other record of its key runs, next may return
// one of that key again.
func (w *window) end(it *item, s state) {
	it.state = s
	switch n := w.running[it.Key]; {
	case n > 1:
		w.running[it.Key] = n - 1
	default: // the last one, or the window was discarded meanwhile
		delete(w.running, it.Key)
	}
}

// count returns the number of records in state s.
func (w *window) count(s state) (n int) {
	for _, it := range w.items {
		if it.state == s {
			n++
		}
	}
	return n
}

// settleable returns the records that may be settled, in the order of Poll: in each sequence those
// before the first that is not done.
func (w *window) settleable() []*item {
	var ready []*item
	open := map[sequence]bool{}
	for _, it := range w.items {
		switch {
		case it.state != done:
			open[it.sequence()] = true
		case !open[it.sequence()]:
			ready = append(ready, it)
		}
	}
	return ready
}

// remove removes the records for which gone returns true and keeps the order of the others.
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

// postpone marks the waiting records as delayed on level, without a failure, and returns their
// number. Records of other keys can then enter the window.
func (w *window) postpone(level Level, now time.Time) (n int) {
	for _, it := range w.items {
		if it.state == waiting {
			it.state, it.doneAt = done, now
			it.out = Outcome{Delivery: it.Delivery, Verdict: Delay, Level: level}
			n++
		}
	}
	return n
}
