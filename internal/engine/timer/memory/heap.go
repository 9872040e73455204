package memory

// The heap of a lane holds entry numbers by plan.at, and entry.pos is the way back. It is written
// out because container/heap costs an interface call per comparison.

// moveLocked gives an entry a new place in time.
func (s *shard) moveLocked(n int32, at int64) {
	s.plan(n).at = at
	e := s.entry(n)
	l := &s.lanes[e.kind]
	if !s.upLocked(l.heap, e.pos) {
		s.downLocked(l.heap, e.pos)
	}
	s.publishLocked(l)
}

// removeLocked takes an entry out of its heap.
func (s *shard) removeLocked(n int32) {
	e := s.entry(n)
	l := &s.lanes[e.kind]
	pos, last := e.pos, int32(len(l.heap)-1)
	s.swapLocked(l.heap, pos, last)
	l.heap = l.heap[:last]
	if pos < last && !s.upLocked(l.heap, pos) {
		s.downLocked(l.heap, pos)
	}
	s.publishLocked(l)
}

func (s *shard) publishLocked(l *lane) {
	next := int64(never)
	if len(l.heap) > 0 {
		next = s.plan(l.heap[0]).at
	}
	if l.next.Load() != next {
		l.next.Store(next)
	}
}

func (s *shard) swapLocked(h []int32, i, j int32) {
	h[i], h[j] = h[j], h[i]
	s.entry(h[i]).pos, s.entry(h[j]).pos = i, j
}

// upLocked reports whether the entry moved.
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
