package local

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// journal is the state that results from the frames of a journal file.
type journal struct {
	head   record        // the header
	end    int64         // offset behind the last whole frame, where the next one is written
	boot   [16]byte      // boot under which the last frames were written
	fenced int64         // highest gen that was fenced
	last   drive.Time    // when the last part was accepted; zero: never
	parts  map[int]entry // accepted parts, by number
	tails  map[int]entry // beginnings of parts, by number; never of a part in parts
}

// entry is an accepted part or tail.
type entry struct {
	blob.Part
	gen      int64      // under which it was accepted
	at       drive.Time // when it was accepted
	unsynced bool       // not synced since it was accepted
	suspect  bool       // bytes may be missing, after a power loss or failed sync
}

// errNoHeader reports a journal without a whole header, left by an interrupted Create.
var errNoHeader = errors.New("journal has no header")

// parseJournal applies all whole frames of b. If end < len(b) afterwards, the rest is torn and must
// be truncated. It returns errNoHeader without a header and errDamaged for frames that cannot be
// valid.
func parseJournal(b []byte) (*journal, error) {
	head, n, err := readFrame(b)
	switch {
	case err != nil:
		return nil, err
	case n == 0 && len(b) < frameOver+headerLen:
		return nil, errNoHeader
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

// apply updates j by record r. It returns errDamaged for a second header or a part of impossible
// size.
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
		j.markReboot()
		j.boot = r.boot
	case kindSynced:
		j.updateAll(func(e *entry) { e.unsynced = false })
	case kindVerified:
		j.updateAll(func(e *entry) { e.suspect = false })
	case kindDoubt:
		j.updateAll(func(e *entry) { e.suspect = true })
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

// fits reports whether the part or tail of r fits the part size and the largest file.
func (j *journal) fits(r record) bool {
	return r.size >= 0 && r.size <= j.head.partSize && drive.ByteSize(r.n) < drive.MaxFileSize/j.head.partSize
}

// holds reports whether the journal has part n or a tail of it.
func (j *journal) holds(n int) bool {
	_, part := j.parts[n]
	_, tail := j.tails[n]
	return part || tail
}

// markReboot marks unsynced parts as suspect.
func (j *journal) markReboot() {
	j.updateAll(func(e *entry) { e.suspect = e.suspect || e.unsynced })
}

// updateAll applies set to all parts and tails.
func (j *journal) updateAll(set func(*entry)) {
	for _, entries := range []map[int]entry{j.parts, j.tails} {
		for n, e := range entries {
			set(&e)
			entries[n] = e
		}
	}
}

// any reports whether the predicate is returns true for at least one part or tail.
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

// entry returns part n or its tail; ok is false if the journal has neither.
func (j *journal) entry(n int) (e entry, ok bool) {
	if e, ok = j.parts[n]; !ok {
		e, ok = j.tails[n]
	}
	return e, ok
}

// isUnsynced reports whether e was not synced since it was accepted.
func isUnsynced(e entry) bool { return e.unsynced }

// isSuspect reports whether bytes of e may be missing on disk after a crash or a failed sync; they
// must be verified before use.
func isSuspect(e entry) bool { return e.suspect }

// sortedParts returns the entries as blob.Parts, ordered by N.
func sortedParts(entries map[int]entry) []blob.Part {
	parts := make([]blob.Part, 0, len(entries))
	for _, n := range slices.Sorted(maps.Keys(entries)) {
		parts = append(parts, entries[n].Part)
	}
	return parts
}

// span is a byte range of a data file.
type span struct{ off, len int64 }

// end returns the offset behind the range.
func (s span) end() int64 { return s.off + s.len }

// slot returns the full range of part n in the data file.
func (j *journal) slot(n int) span {
	return span{int64(n) * int64(j.head.partSize), int64(j.head.partSize)}
}

// gaps returns the ranges that no part, tail or running write in busy covers, below the end of the
// last covered part, and that end.
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

// records returns the shortest sequence of records that results in j, for a process under the given
// boot. Suspect parts come first, followed by a doubt record.
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

// missing reports whether the parts do not add up to a file of size bytes.
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

// part returns the fields of a part or tail record as a blob.Part.
func (r record) part() blob.Part {
	return blob.Part{N: r.n, Size: r.size, CRC32: r.crc32, CV: r.cv, Root: r.root, Session: r.session}
}

// entry returns a part or tail record as an entry.
func (r record) entry() entry {
	return entry{Part: r.part(), gen: r.gen, at: r.time, unsynced: r.flags&flagDurable == 0}
}

// record returns the record of kind k (part or tail) that accepts e.
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
