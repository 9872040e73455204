package memory

// Each kind has a binary min-heap of entry numbers by plan.at; entry.pos is the index in it.
// container/heap would cost an interface call per comparison.

// moveLocked sets plan.at of entry n to tick at, restores the heap order and updates next. The
// caller holds s.mu for writing.
func (s *shard) moveLocked(n int32, at int64) {
	s.plan(n).at = at
	e := s.entry(n)
	l := &s.heaps[e.kind]
	if !s.upLocked(l.heap, e.pos) {
		s.downLocked(l.heap, e.pos)
	}
	s.publishLocked(l)
}

// removeLocked removes entry n from its heap and updates next; the entry stays in the table. The
// caller holds s.mu for writing.
func (s *shard) removeLocked(n int32) {
	e := s.entry(n)
	l := &s.heaps[e.kind]
	pos, last := e.pos, int32(len(l.heap)-1)
	s.swapLocked(l.heap, pos, last)
	l.heap = l.heap[:last]
	if pos < last && !s.upLocked(l.heap, pos) {
		s.downLocked(l.heap, pos)
	}
	s.publishLocked(l)
}

// publishLocked sets l.next, which other goroutines read without the lock, to the tick of the first
// entry in the heap; never if it is empty. The caller holds s.mu for writing.
func (s *shard) publishLocked(l *kindHeap) {
	next := int64(never)
	if len(l.heap) > 0 {
		next = s.plan(l.heap[0]).at
	}
	if l.next.Load() != next {
		l.next.Store(next)
	}
}

// swapLocked swaps two heap elements and updates the positions in their entries. The caller holds
// s.mu for writing.
func (s *shard) swapLocked(h []int32, i, j int32) {
	h[i], h[j] = h[j], h[i]
	s.entry(h[i]).pos, s.entry(h[j]).pos = i, j
}

// upLocked moves the element at index i towards the root until its parent is not later, and reports
// whether it moved. The caller holds s.mu.
func (s *shard) upLocked(h []int32, i int32) bool {
	from := i
	for i > 0 {
		parent := (i - 1) / 2
		if s.plan(h[parent]).at <= s.plan(h[i]).at {
			break
		}
		s.swapLocked(h, i, parent)
		i = parent
	}
	return i != from
}

// downLocked moves the element at index i away from the root until no child is earlier. The caller
// holds s.mu.
func (s *shard) downLocked(h []int32, i int32) {
	for {
		child := 2*i + 1
		if child >= int32(len(h)) {
			return
		}
		if right := child + 1; right < int32(len(h)) && s.plan(h[right]).at < s.plan(h[child]).at {
			child = right
		}
		if s.plan(h[i]).at <= s.plan(h[child]).at {
			return
		}
		s.swapLocked(h, i, child)
		i = child
	}
}
