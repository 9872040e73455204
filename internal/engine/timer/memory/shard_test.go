package memory

import (
	"encoding/binary"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/timer"
)

func TestChurnTakesNoMoreMemory(t *testing.T) {
	t.Parallel()
	q := New(Options{})
	for i := range uint64(200_000) {
		key := timer.Key{Kind: timer.Park}
		binary.BigEndian.PutUint64(key.ID[:], i)
		arm(t, q, timer.Entry{Key: key, Gen: 1, Idle: time.Hour})
		if err := q.Cancel(t.Context(), key, 1); err != nil {
			t.Fatal(err)
		}
	}
	for i := range q.shards {
		if s := &q.shards[i]; len(s.chunks) > 1 || len(s.table.slots) > minSlots || cap(s.heaps[timer.Park].heap) > 16 {
			t.Fatalf("a shard that held one timer at a time has %d chunks, %d slots", len(s.chunks), len(s.table.slots))
		}
	}
}

// Colliding keys share one probe run; whichever are removed, the others are found.
func TestRemovalFromAProbeRun(t *testing.T) {
	t.Parallel()
	var run []timer.Key
	for i := uint64(0); len(run) < 8; i++ {
		key := timer.Key{Kind: timer.Park}
		binary.BigEndian.PutUint64(key.ID[:], i)
		if h := hash(key); uint32(h)%minSlots >= minSlots-2 { // a run that wraps around the end
			run = append(run, key)
		}
	}
	for removed := range 1 << len(run) {
		s := &shard{}
		s.init(len(timer.Kinds()) + 1)
		for _, key := range run {
			s.addLocked(hash(key), key)
		}
		for i, key := range run {
			if removed>>i&1 == 1 {
				s.dropLocked(hash(key), s.findLocked(hash(key), key))
			}
		}
		for i, key := range run {
			if gone := removed>>i&1 == 1; gone != (s.findLocked(hash(key), key) < 0) {
				t.Fatalf("removed %08b of a run: key %d is gone: %v", removed, i, !gone)
			}
		}
	}
}
