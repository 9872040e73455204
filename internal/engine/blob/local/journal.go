package local

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// journal is what the frames of a journal file add up to.
type journal struct {
	head   record
	end    int64 // bytes of whole frames: where the next one goes
	boot   [16]byte
	fenced int64
	last   drive.Time // when the last part was accepted
	parts  map[int]entry
	tails  map[int]entry // beginnings of parts; never of one that is in parts
}

// entry is an accepted part.
type entry struct {
	blob.Part
	gen      int64
	at       drive.Time // when it was accepted
	unsynced bool       // no sync since it was accepted
	suspect  bool       // its bytes may be gone: a power loss or a failed sync came after it
}

// errUnborn comes from a journal without a whole header: Create did not come to its end.
var errUnborn = errors.New("journal has no header")

// parseJournal reads all whole frames of b; end < len(b) afterwards means that something behind
// them is to be cut.
func parseJournal(b []byte) (*journal, error) {
	head, n, err := readFrame(b)
	switch {
	case err != nil:
		return nil, err
	case n == 0 && len(b) < frameOver+headerLen:
		return nil, errUnborn
	case n == 0 || head.kind != kindHeader:
		return nil, fmt.Errorf("no header: %w", errDamaged)
	}
	j := &journal{head: head, end: int64(n), boot: head.boot, parts: make(map[int]entry), tails: make(map[int]entry)}
	for {
		r, n, err := readFrame(b[j.end:])
		if err != nil {
			return nil, fmt.Errorf("frame at %d: %w", j.end, err)
		}
		if n == 0 {
			return j, nil
		}
		if err := j.apply(r); err != nil {
			return nil, fmt.Errorf("frame at %d: %w", j.end, err)
		}
		j.end += int64(n)
	}
}

// apply does to j what r says.
func (j *journal) apply(r record) error {
	switch r.kind {
	case kindHeader:
		return fmt.Errorf("second header: %w", errDamaged)
	case kindPart:
		if !j.fits(r) {
			return fmt.Errorf("part %d of %d bytes: %w", r.n, r.size, errDamaged)
		}
		j.parts[r.n] = r.entry()
		delete(j.tails, r.n)
		j.last = max(j.last, r.time)
	case kindDrop:
		delete(j.parts, r.n)
		delete(j.tails, r.n)
	case kindFence:
		j.fenced = max(j.fenced, r.gen)
	case kindBoot:
		j.rebooted()
		j.boot = r.boot
	case kindSynced:
		j.mark(func(e *entry) { e.unsynced = false })
	case kindVerified:
		j.mark(func(e *entry) { e.suspect = false })
	case kindDoubt:
		j.mark(func(e *entry) { e.suspect = true })
	case kindTail:
		if !j.fits(r) {
			return fmt.Errorf("tail of part %d, %d bytes: %w", r.n, r.size, errDamaged)
		}
		j.tails[r.n] = r.entry()
		delete(j.parts, r.n)
		j.last = max(j.last, r.time)
	}
	return nil
}

// fits reports whether a part or tail lies in its slot and in the largest file.
func (j *journal) fits(r record) bool {
	return r.size >= 0 && r.size <= j.head.partSize && drive.ByteSize(r.n) < drive.MaxFileSize/j.head.partSize
}

// holds reports whether bytes of part n are named.
func (j *journal) holds(n int) bool {
	_, part := j.parts[n]
	_, tail := j.tails[n]
	return part || tail
}

// rebooted makes suspect what was not synced before the machine stopped.
func (j *journal) rebooted() {
	j.mark(func(e *entry) { e.suspect = e.suspect || e.unsynced })
}

func (j *journal) mark(set func(*entry)) {
	for _, entries := range []map[int]entry{j.parts, j.tails} {
		for n, e := range entries {
			set(&e)
			entries[n] = e
		}
	}
}

func (j *journal) any(is func(entry) bool) bool {
	for _, entries := range []map[int]entry{j.parts, j.tails} {
		for _, e := range entries {
			if is(e) {
				return true
			}
		}
	}
	return false
}

// entry returns what the journal has of part n: the part, or its tail.
func (j *journal) entry(n int) (e entry, ok bool) {
	if e, ok = j.parts[n]; !ok {
		e, ok = j.tails[n]
	}
	return e, ok
}

func isUnsynced(e entry) bool { return e.unsynced }
func isSuspect(e entry) bool  { return e.suspect }

// list returns parts or tails in order of N.
func list(entries map[int]entry) []blob.Part {
	parts := make([]blob.Part, 0, len(entries))
	for _, n := range slices.Sorted(maps.Keys(entries)) {
		parts = append(parts, entries[n].Part)
	}
	return parts
}

// span is a range of bytes of a data file.
type span struct{ off, len int64 }

func (s span) end() int64 { return s.off + s.len }

// slot returns the range that belongs to part n, whatever its size.
func (j *journal) slot(n int) span {
	return span{int64(n) * int64(j.head.partSize), int64(j.head.partSize)}
}

// gaps returns the ranges below the end of the last part that nothing in the journal covers and no
// n in busy owns, and that end.
func (j *journal) gaps(busy map[int]int64) (gaps []span, end int64) {
	covered := make(map[int]int64, len(j.parts)) // bytes of each slot
	for n, e := range j.tails {
		covered[n] = int64(e.Size)
	}
	for n, e := range j.parts {
		covered[n] = int64(e.Size)
	}
	for n := range busy {
		covered[n] = int64(j.head.partSize)
	}
	for _, n := range slices.Sorted(maps.Keys(covered)) {
		next := j.slot(n)
		next.len = covered[n]
		if next.off > end {
			gaps = append(gaps, span{end, next.off - end})
		}
		end = max(end, next.end())
	}
	return gaps, end
}

// records returns the shortest journal that says what j says, for a process under the given boot.
// What is suspect comes first, so that a doubt can follow it.
func (j *journal) records(boot [16]byte) []record {
	head := j.head
	head.boot = boot
	all := []record{head}
	for _, suspect := range []bool{true, false} {
		for _, n := range slices.Sorted(maps.Keys(j.parts)) {
			if e := j.parts[n]; e.suspect == suspect {
				all = append(all, e.record(kindPart))
			}
		}
		for _, n := range slices.Sorted(maps.Keys(j.tails)) {
			if e := j.tails[n]; e.suspect == suspect {
				all = append(all, e.record(kindTail))
			}
		}
		if suspect && len(all) > 1 {
			all = append(all, record{kind: kindDoubt, flags: doubtKept})
		}
	}
	if j.fenced > 0 {
		all = append(all, record{kind: kindFence, gen: j.fenced})
	}
	return all
}

// missing returns whether the parts fail to make up a file of the given size.
func (j *journal) missing(size drive.ByteSize) bool {
	var sum drive.ByteSize
	for n, e := range j.parts {
		sum += e.Size
		if e.Size != j.head.partSize && n != len(j.parts)-1 || n >= len(j.parts) {
			return true
		}
	}
	return sum != size
}

func (r record) part() blob.Part {
	return blob.Part{N: r.n, Size: r.size, CRC32: r.crc32, CV: r.cv, Root: r.root, Session: r.session}
}

func (r record) entry() entry {
	return entry{Part: r.part(), gen: r.gen, at: r.time, unsynced: r.flags&flagDurable == 0}
}

// record returns the record that accepts e as a part or as a tail.
func (e entry) record(k kind) record {
	r := record{
		kind: k, n: e.N, gen: e.gen, size: e.Size, crc32: e.CRC32, time: e.at, session: e.Session, cv: e.CV, root: e.Root,
	}
	if !e.Root.IsZero() {
		r.flags |= flagRoot
	}
	if !e.unsynced {
		r.flags |= flagDurable
	}
	return r
}
