package main

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/huandu/skiplist"
	"github.com/tidwall/btree"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
)

// storeKind is a data structure to compare.
type storeKind struct {
	name        text
	linear      bool // a push-back takes time linear in the number of tasks
	wakesItself bool // calls back by itself, so takeDue cannot be measured
	make        func(c *clock, tasks int) taskStore
}

var storeKinds = []storeKind{
	{name: text{"sorted list (slices)", "有序列表（slices）"}, linear: true, make: newSortedList},
	{name: text{"binary heap, moved by each push-back (container/heap)", "二叉堆，每次推后都移动（container/heap）"}, make: newMovingHeap},
	{name: text{"binary heap, stale entries stay until they come up (container/heap)", "二叉堆，过期条目留到堆顶再删（container/heap）"}, make: newStaleHeap},
	{name: text{"skip list (huandu/skiplist)", "跳表（huandu/skiplist）"}, make: newSkipList},
	{name: text{"B-tree (tidwall/btree)", "B 树（tidwall/btree）"}, make: newTree},
	{name: text{"Go's own timers (time.AfterFunc, Reset)", "Go 自带定时器（time.AfterFunc、Reset）"}, wakesItself: true, make: newGoTimers},
	{name: text{"SmartDrive: heap with a lower bound, a push-back moves nothing", "SmartDrive：堆里存下限，推后不移动"}, make: newOwnQueue},
}

// item is a task and its due time. Items are distinct.
type item struct {
	due  int64
	task int32
}

func compareItems(a, b item) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.task, b.task))
}

// sortedList is a slice ordered by due time.
type sortedList struct {
	*clock

	items []item
	due   []int64 // by task
}

func newSortedList(c *clock, tasks int) taskStore {
	return &sortedList{clock: c, due: make([]int64, tasks)}
}

func (l *sortedList) insert(task int32, idle int64) {
	l.due[task] = l.now + idle
	x := item{l.due[task], task}
	i, _ := slices.BinarySearchFunc(l.items, x, compareItems)
	l.items = slices.Insert(l.items, i, x)
}

func (l *sortedList) pushBack(task int32, idle int64) {
	if i, found := slices.BinarySearchFunc(l.items, item{l.due[task], task}, compareItems); found {
		l.items = slices.Delete(l.items, i, i+1)
	}
	l.insert(task, idle)
}

func (l *sortedList) takeDue() int {
	n, _ := slices.BinarySearchFunc(l.items, item{due: l.now + 1, task: -1}, compareItems)
	l.items = slices.Delete(l.items, 0, n)
	return n
}

func (*sortedList) close() {}

// items implements heap.Interface, ordered by due time.
type items []item

func (h *items) Len() int           { return len(*h) }
func (h *items) Less(i, j int) bool { return (*h)[i].due < (*h)[j].due }
func (h *items) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *items) Push(x any)         { *h = append(*h, x.(item)) }

func (h *items) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// movingHeap tracks the index of each task and moves a task at each push-back.
type movingHeap struct {
	items

	clock *clock
	at    []int // by task
}

func newMovingHeap(c *clock, tasks int) taskStore {
	return &movingHeap{clock: c, at: make([]int, tasks)}
}

// Swap implements heap.Interface.
func (h *movingHeap) Swap(i, j int) {
	h.items.Swap(i, j)
	h.at[h.items[i].task], h.at[h.items[j].task] = i, j
}

// Push implements heap.Interface.
func (h *movingHeap) Push(x any) {
	h.at[x.(item).task] = h.Len()
	h.items.Push(x)
}

func (h *movingHeap) insert(task int32, idle int64) { heap.Push(h, item{h.clock.now + idle, task}) }

func (h *movingHeap) pushBack(task int32, idle int64) {
	h.items[h.at[task]].due = h.clock.now + idle
	heap.Fix(h, h.at[task])
}

func (h *movingHeap) takeDue() (n int) {
	for ; h.Len() > 0 && h.items[0].due <= h.clock.now; n++ {
		heap.Pop(h)
	}
	return n
}

func (*movingHeap) close() {}

// staleHeap adds an entry for each push-back. It drops an outdated entry once it reaches the top.
type staleHeap struct {
	*clock

	items items
	due   []int64 // by task
}

func newStaleHeap(c *clock, tasks int) taskStore {
	return &staleHeap{clock: c, due: make([]int64, tasks)}
}

func (h *staleHeap) insert(task int32, idle int64) {
	h.due[task] = h.now + idle
	heap.Push(&h.items, item{h.due[task], task})
}

func (h *staleHeap) pushBack(task int32, idle int64) { h.insert(task, idle) }

func (h *staleHeap) takeDue() (n int) {
	for len(h.items) > 0 && h.items[0].due <= h.now {
		if x := heap.Pop(&h.items).(item); x.due == h.due[x.task] {
			h.due[x.task] = 0
			n++
		}
	}
	return n
}

func (*staleHeap) close() {}

// skipList is a skip list ordered by due time and task.
type skipList struct {
	*clock

	list *skiplist.SkipList
	at   []*skiplist.Element // by task
}

// byDue orders items for the skiplist library.
type byDue struct{}

// Compare implements skiplist.Comparable.
func (byDue) Compare(a, b any) int { return compareItems(a.(item), b.(item)) }

// CalcScore implements skiplist.Comparable.
func (byDue) CalcScore(key any) float64 { return float64(key.(item).due) }

func newSkipList(c *clock, tasks int) taskStore {
	return &skipList{clock: c, list: skiplist.New(byDue{}), at: make([]*skiplist.Element, tasks)}
}

func (l *skipList) insert(task int32, idle int64) {
	l.at[task] = l.list.Set(item{l.now + idle, task}, nil)
}

func (l *skipList) pushBack(task int32, idle int64) {
	l.list.RemoveElement(l.at[task])
	l.insert(task, idle)
}

func (l *skipList) takeDue() (n int) {
	for e := l.list.Front(); e != nil && e.Key().(item).due <= l.now; e = l.list.Front() {
		l.list.RemoveFront()
		n++
	}
	return n
}

func (*skipList) close() {}

// tree is a B-tree ordered by due time and task.
type tree struct {
	*clock

	items *btree.BTreeG[item]
	due   []int64 // by task
}

func newTree(c *clock, tasks int) taskStore {
	less := func(a, b item) bool { return compareItems(a, b) < 0 }
	return &tree{clock: c, items: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true}), due: make([]int64, tasks)}
}

func (t *tree) insert(task int32, idle int64) {
	t.due[task] = t.now + idle
	t.items.Set(item{t.due[task], task})
}

func (t *tree) pushBack(task int32, idle int64) {
	t.items.Delete(item{t.due[task], task})
	t.insert(task, idle)
}

func (t *tree) takeDue() (n int) {
	for first, ok := t.items.Min(); ok && first.due <= t.now; first, ok = t.items.Min() {
		t.items.PopMin()
		n++
	}
	return n
}

func (*tree) close() {}

// goTimers has a runtime timer for each task. They run in real time, and none fires during a
// measurement.
type goTimers struct{ timers []*time.Timer }

func newGoTimers(_ *clock, tasks int) taskStore { return &goTimers{make([]*time.Timer, tasks)} }

// far keeps runtime timers from firing during a measurement.
const far = time.Hour

func (g *goTimers) insert(task int32, idle int64) {
	g.timers[task] = time.AfterFunc(far+time.Duration(idle)*time.Millisecond, func() {})
}

func (g *goTimers) pushBack(task int32, idle int64) {
	g.timers[task].Reset(far + time.Duration(idle)*time.Millisecond)
}

func (*goTimers) takeDue() int { return 0 }

func (g *goTimers) close() {
	for _, t := range g.timers {
		if t != nil {
			t.Stop()
		}
	}
}

// ownQueue is SmartDrive's queue in memory.
type ownQueue struct{ queue *memory.Queue }

func newOwnQueue(c *clock, _ int) taskStore {
	return &ownQueue{memory.New(memory.Options{Now: func() time.Time { return time.UnixMilli(c.now) }})}
}

// timerKey returns a key of 16 bytes, as evenly distributed as random ids.
func timerKey(task int32) timer.Key {
	k := timer.Key{Kind: timer.Park}
	binary.LittleEndian.PutUint64(k.ID[:], uint64(task)*0x9E3779B97F4A7C15)
	binary.LittleEndian.PutUint64(k.ID[8:], uint64(task)*0xC2B2AE3D27D4EB4F)
	return k
}

func (q *ownQueue) insert(task int32, idle int64) {
	// Arm fails only for invalid entries.
	_ = q.queue.Arm(context.Background(), []timer.Entry{{Key: timerKey(task), Gen: 1, Idle: time.Duration(idle) * time.Millisecond}})
}

func (q *ownQueue) pushBack(task int32, _ int64) { q.queue.Touch(timerKey(task)) }

func (q *ownQueue) takeDue() (n int) {
	for {
		taken, err := leaseBatch(context.Background(), q.queue, 1000)
		if n += taken; err != nil || taken == 0 {
			return n
		}
	}
}

func (*ownQueue) close() {}
