package memory

import (
	"encoding/binary"
	"math/bits"

	"example.org/smartdrive/internal/engine/timer"
)

// table maps the hash of a key to an entry number: open addressing with linear probing, at most 3/4
// full. Its size matters: a touch of a timer outside the CPU cache costs two memory accesses, one
// for the slot and one for the entry.
//
//	slot = tag << 24 | number + 1      zero is empty; 2^24 entries a shard, a thousand million in all
//	hash = shard (6 bits) ... tag (8 bits, from 32) | index (32 bits, as many as the table needs)
type table struct {
	slots []uint32 // number of an entry and bits of its hash; 0: free
	used  int
}

const (
	minSlots   = 16 // slots of an empty table
	numberBits = 24 // bits of the number of an entry in a slot
)

// hash spreads a key over 64 bits. It does not resist chosen collisions: the server makes the ids.
func hash(k timer.Key) uint64 {
	a, b := binary.LittleEndian.Uint64(k.ID[:8]), binary.LittleEndian.Uint64(k.ID[8:])
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15^uint64(k.Kind)<<56, b^0xe7037ed1a0b428db)
	hi, lo = bits.Mul64(hi^lo, 0x8ebc6af09c88c6e3)
	return hi ^ lo
}

// slotOf returns the content of the table slot for entry number n whose key has the hash h.
func slotOf(h uint64, n int32) uint32 { return uint32(h>>32)<<numberBits | uint32(n+1) }

// mask returns the mask that maps a hash to a slot index.
func (t *table) mask() uint32 { return uint32(len(t.slots) - 1) }

// findLocked returns the number of the entry with key k and hash h, or -1. The caller holds s.mu,
// for reading at least.
func (s *shard) findLocked(h uint64, k timer.Key) int32 {
	slots := s.table.slots
	if len(slots) == 0 {
		return -1
	}
	mask, tag := uint32(len(slots)-1), uint32(h>>32)<<numberBits
	for i := uint32(h) & mask; slots[i] != 0; i = (i + 1) & mask {
		if slot := slots[i]; slot&^(1<<numberBits-1) == tag {
			n := int32(slot&(1<<numberBits-1)) - 1
			if e := s.entry(n); e.id == k.ID && e.kind == k.Kind {
				return n
			}
		}
	}
	return -1
}

// linkLocked adds entry n with hash h to the table, and doubles the table if it is three quarters
// full. The entry's key must be set. The caller holds s.mu for writing.
func (s *shard) linkLocked(h uint64, n int32) {
	t := &s.table
	if 4*(t.used+1) > 3*len(t.slots) {
		s.growLocked()
	}
	t.put(h, slotOf(h, n))
	t.used++
}

// put stores a slot value at the first free index for h.
func (t *table) put(h uint64, slot uint32) {
	i := uint32(h) & t.mask()
	for t.slots[i] != 0 {
		i = (i + 1) & t.mask()
	}
	t.slots[i] = slot
}

// growLocked doubles the table and inserts all entries again. The caller holds s.mu for writing.
func (s *shard) growLocked() {
	old := s.table.slots
	s.table.slots = make([]uint32, max(minSlots, 2*len(old)))
	for _, slot := range old {
		if slot != 0 {
			s.table.put(s.hashLocked(slot), slot)
		}
	}
}

// hashLocked returns the hash of the key of the slot's entry.
func (s *shard) hashLocked(slot uint32) uint64 {
	return hash(s.entry(int32(slot&(1<<numberBits-1)) - 1).key())
}

// unlinkLocked removes entry n with hash h from the table. It moves displaced slots back, so that
// no tombstones are needed.
func (s *shard) unlinkLocked(h uint64, n int32) {
	t := &s.table
	hole := uint32(h) & t.mask()
	for t.slots[hole] != slotOf(h, n) {
		hole = (hole + 1) & t.mask()
	}
	t.used--
	for i := (hole + 1) & t.mask(); t.slots[i] != 0; i = (i + 1) & t.mask() {
		home := uint32(s.hashLocked(t.slots[i])) & t.mask()
		if (i-home)&t.mask() >= (i-hole)&t.mask() {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = 0
}
