package local

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldenJournal returns every kind of record, in an order whose result is known.
func goldenJournal() []record {
	part := func(n int, size drive.ByteSize, flags byte) record {
		return record{
			kind: kindPart, n: n, flags: flags, gen: 1, size: size, crc32: 0xcbf43926, time: 1_795_132_800_123,
			session: [16]byte{0xaa, 15: 0xbb}, cv: digest.CV{1, 31: 2}, root: digest.Sum{3, 31: 4},
		}
	}
	tail := part(7, 100, flagDurable)
	tail.kind, tail.root = kindTail, digest.Sum{}
	first, rest := part(0, drive.MiB, flagRoot), part(2, 5000, flagDurable)
	rest.root = digest.Sum{}
	gone := part(1, drive.MiB, 0)
	gone.root = digest.Sum{}
	return []record{
		{
			kind: kindHeader, id: [16]byte{1, 2, 3, 15: 16}, begun: 1_795_132_799_000, partSize: drive.MiB, size: 2*drive.MiB + 5000,
			boot: [16]byte{9},
		},
		first,
		{kind: kindSynced},
		gone,
		{kind: kindFence, gen: 3},
		{kind: kindBoot, boot: [16]byte{10}},
		{kind: kindVerified},
		rest,
		{kind: kindDrop, n: 1, gen: 4},
		{kind: kindDoubt, flags: doubtSync},
		tail,
	}
}

func encode(records []record) (b []byte) {
	for _, r := range records {
		b = r.append(b)
	}
	return b
}

func TestJournalMatchesGoldenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "journal-v1")
	b := encode(goldenJournal())
	if *update {
		noError(t, os.MkdirAll("testdata", 0o755))
		noError(t, os.WriteFile(path, b, 0o644))
	}
	golden, err := os.ReadFile(path)
	noError(t, err)
	if !bytes.Equal(golden, b) {
		t.Error("what is written is not what version 1 is")
	}
	j, err := parseJournal(golden)
	noError(t, err)
	want := []blob.Part{goldenJournal()[1].part(), goldenJournal()[7].part()}
	if diff := cmp.Diff(want, sortedParts(j.parts)); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if j.fenced != 3 || j.boot != [16]byte{10} || j.end != int64(len(golden)) || j.last != 1_795_132_800_123 {
		t.Errorf("fenced %d, boot %x, end %d, last %v", j.fenced, j.boot, j.end, j.last)
	}
	if tail, want := j.tails[7], goldenJournal()[10].entry(); tail != want {
		t.Errorf("tail is %+v, want %+v", tail, want)
	}
	if e := j.parts[0]; e.unsynced || !e.suspect {
		t.Errorf("part 0: unsynced %v, suspect %v", e.unsynced, e.suspect)
	}
}

func TestNewerJournalVersionIsRejected(t *testing.T) {
	t.Parallel()
	header := encode(goldenJournal()[:1])
	frame := []byte{0, 0, 77, 9}
	frame = binary.LittleEndian.AppendUint32(frame, digest.CRC32C(frame))
	newer := bytes.Clone(header)
	binary.LittleEndian.PutUint16(newer[frameHead+len(magic):], 9)
	binary.LittleEndian.PutUint32(newer[len(newer)-4:], digest.CRC32C(newer[:len(newer)-4]))
	for name, b := range map[string][]byte{"record": append(bytes.Clone(header), frame...), "header": newer} {
		if _, err := parseJournal(b); err == nil || !strings.Contains(err.Error(), "version 9") {
			t.Errorf("%s of version 9: error is %v", name, err)
		}
	}
}

func TestDamagedJournalIsAnError(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d, 0)
	path := filepath.Join(d.stagedDir(ref), journalFile)
	b, err := os.ReadFile(path)
	noError(t, err)
	b[10] ^= 1
	noError(t, os.WriteFile(path, b, fileMode))
	after := reopenDir(t, d)
	if _, err := after.Staging.Load(t.Context(), ref); drive.KindOf(err) != drive.Internal {
		t.Errorf("damaged header: %v", err)
	}
	noError(t, after.Staging.Create(t.Context(), ref))
	got, err := os.ReadFile(filepath.Join(d.stagedDir(ref), dataFile))
	if err != nil || !bytes.HasPrefix(got, file[:1000]) {
		t.Errorf("bytes beside a damaged journal were touched (B3): %v", err)
	}
}

// FuzzJournal parses arbitrary bytes, as they are and as payloads of valid frames, because random
// bytes rarely have a correct CRC.
func FuzzJournal(f *testing.F) {
	whole := encode(goldenJournal())
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add(append(bytes.Clone(whole), 0, 0, 0, 0, 0, 0, 0, 0))
	f.Add(payloads(whole))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkJournal(t, b)
		checkJournal(t, frames(encode(goldenJournal()[:1]), b))
	})
}

// payloads is the inverse of frames.
func payloads(b []byte) (out []byte) {
	for len(b) > 0 {
		size := int(binary.LittleEndian.Uint16(b))
		out = append(out, byte(size), b[2])
		out = append(out, b[frameHead:frameHead+size]...)
		b = b[frameOver+size:]
	}
	return out
}

// frames appends to journal one valid frame per kind, length and payload in b.
func frames(journal, b []byte) []byte {
	for len(b) >= 2 {
		size, kind := min(int(b[0]), len(b)-2), b[1]
		start := len(journal)
		journal = append(journal, byte(size), 0, kind, sinceFirst)
		journal = append(journal, b[2:2+size]...)
		journal = binary.LittleEndian.AppendUint32(journal, digest.CRC32C(journal[start:]))
		b = b[2+size:]
	}
	return journal
}

func checkJournal(t *testing.T, b []byte) {
	t.Helper()
	var again []byte
	for at := 0; ; {
		r, n, err := readFrame(b[at:])
		if n == 0 || err != nil {
			break
		}
		at += n
		again = r.append(again)
	}
	if !bytes.HasPrefix(b, again) {
		t.Fatal("frames read and written again differ")
	}
	j, err := parseJournal(b)
	if err != nil {
		return
	}
	if j.end != int64(len(again)) {
		t.Fatalf("journal ends at %d, its frames at %d", j.end, len(again))
	}
	wantSameAfterCompaction(t, j)
	gaps, end := j.gaps(nil)
	for _, g := range gaps {
		if g.off < 0 || g.len <= 0 || g.end() > end {
			t.Fatalf("gap %v below %d", g, end)
		}
	}
}

// wantSameAfterCompaction checks that a rewritten journal has the same state as j.
func wantSameAfterCompaction(t *testing.T, j *journal) {
	t.Helper()
	b := encode(j.records(j.boot))
	again, err := parseJournal(b)
	if err != nil {
		t.Fatalf("rewritten: %v", err)
	}
	again.last, again.end, again.head.boot = j.last, j.end, j.head.boot // dropped parts are forgotten
	if diff := cmp.Diff(j, again, cmp.AllowUnexported(journal{}, entry{}, record{}), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("rewritten (-before +after):\n%s", diff)
	}
}

func TestJournalWithManyDropsIsCompacted(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	ref, file := newUpload(t, d, 0)
	_, err := d.Staging.Fence(t.Context(), ref, 1)
	noError(t, err)
	last := blobtest.Slice(file, 2)
	d = rebootDir(t, d)
	var longest int64
	for range 4000 {
		send(t, d, ref, 2, 2, last[:1])
		noError(t, d.Staging.Drop(t.Context(), ref, 2, 2))
		info, err := os.Stat(filepath.Join(d.stagedDir(ref), journalFile))
		noError(t, err)
		longest = max(longest, info.Size())
	}
	if longest > compactMin+1000 {
		t.Errorf("the journal has grown to %d bytes", longest)
	}
	send(t, d, ref, 2, 2, last)
	after := reopenDir(t, d, func(o *Options) { o.BootID = "boot 2" })
	wantNumbers(t, after, ref, file, 0, 2)
	if load(t, after, ref).Suspect {
		t.Error("suspect after the journal was rewritten")
	}
	_, err = blobtest.Send(t.Context(), after.Staging, ref, 1, 1, last)
	wantKind(t, err, drive.WrongState)
}

func TestGapsReturnsUncoveredRanges(t *testing.T) {
	t.Parallel()
	const mib = int64(drive.MiB)
	j := &journal{head: record{partSize: drive.MiB}, parts: map[int]entry{
		0: {Part: blob.Part{N: 0, Size: drive.MiB}},
		1: {Part: blob.Part{N: 1, Size: 10}},
		4: {Part: blob.Part{N: 4, Size: drive.MiB}},
	}}
	for name, c := range map[string]struct {
		busy map[int]int64
		want []span
		end  int64
	}{
		"at rest":                 {nil, []span{{mib + 10, 3*mib - 10}}, 5 * mib},
		"a Write between":         {map[int]int64{3: 1}, []span{{mib + 10, 2*mib - 10}}, 5 * mib},
		"a Write behind the last": {map[int]int64{5: 1}, []span{{mib + 10, 3*mib - 10}}, 6 * mib},
	} {
		gaps, end := j.gaps(c.busy)
		if diff := cmp.Diff(c.want, gaps, cmp.AllowUnexported(span{})); diff != "" || end != c.end {
			t.Errorf("%s: end %d, gaps (-want +got):\n%s", name, end, diff)
		}
	}
}
