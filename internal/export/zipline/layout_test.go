package zipline

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
)

// mixed returns a source with the entries of a typical batch: folders, texts, empty, small and
// large files, names in several scripts.
func mixed() (*memorySource, []Entry) {
	s := newShelf()
	entries := []Entry{
		s.put("盘/店铺甲/发票 001.pdf", noise(1, 100_000)),
		Text("盘/err.txt", sealed, []byte("42 missing\n")),
		s.put("盘/店铺甲/empty.bin", nil),
		Folder("盘/空", sealed),
		s.put("盘/store/large.pdf", noise(2, 3<<20+17)),
		s.put("盘/store/piece.pdf", noise(3, pieceSize)),
		s.put("a", []byte("x")),
	}
	for i := range 40 {
		entries = append(entries, s.put(fmt.Sprintf("many/%02d.txt", i), noise(i, 1+i*997)))
	}
	return s, entries
}

func TestArchiveZipReadsEntries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newShelf()
		wanted := rapid.SliceOfN(rapid.StringMatching(`[a-cA-C发票é/. ]{0,12}`), 0, 40).Draw(rt, "names")
		entries, contents := []Entry{}, [][]byte{}
		for i, name := range SafeNames(wanted) {
			content := noise(i, rapid.SampledFrom([]int{0, 1, 30, 5_000, 70_000}).Draw(rt, "size"))
			switch {
			case isFolder(name):
				content = nil
				entries = append(entries, Folder(name, sealed))
			case rapid.Bool().Draw(rt, "inline"):
				entries = append(entries, Text(name, sealed, content))
			default:
				entries = append(entries, s.put(name, content))
			}
			contents = append(contents, content)
		}
		a := mustLayout(t, entries)
		all := mustRead(t, a, s, 0, a.Size(), Options{})
		checkZip(t, all, entries, contents)
	})
}

func checkZip(t *testing.T, all []byte, entries []Entry, contents [][]byte) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(all), int64(len(all)))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != len(entries) {
		t.Fatalf("%d entries of %d", len(z.File), len(entries))
	}
	for i, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, contents[i]) {
			t.Errorf("%s: %d bytes of %d: %v", f.Name, len(got), len(contents[i]), err)
		}
		want := sealed.Std().Truncate(time.Second)
		if f.Name != entries[i].Name || !f.Modified.Equal(want) || f.Flags != flagUTF8 || f.Method != zip.Store {
			t.Errorf("entry %d is %q of %v, flags %x, method %d", i, f.Name, f.Modified, f.Flags, f.Method)
		}
		if f.Mode().IsDir() != entries[i].IsFolder() {
			t.Errorf("%s: mode %v", f.Name, f.Mode())
		}
	}
}

func TestEmptyArchive(t *testing.T) {
	t.Parallel()
	a := mustLayout(t, nil)
	checkZip(t, mustRead(t, a, newShelf(), 0, a.Size(), Options{}), nil, nil)
}

// Values at or above a limit of the old format use ZIP64 fields, smaller ones do not: some readers
// refuse needless fields.
func TestZip64OnlyWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	const limit = 1<<32 - 1
	s := newShelf()
	header := func(name string) int64 { return localFixed + int64(len(name)) + 9 }
	for what, c := range map[string]struct {
		entries               []Entry
		local, central, last  int // length of the extra field of the first entry, and of the first and last in the directory
		end64                 bool
		needsFirst, needsLast uint16
	}{
		"small":           {[]Entry{s.putZeros("a", 1)}, 9, 9, 9, false, 20, 20},
		"below":           {[]Entry{s.putZeros("a", limit-1)}, 9, 9, 9, true, 20, 20}, // the directory follows
		"at":              {[]Entry{s.putZeros("a", limit)}, 29, 29, 29, true, 45, 45},
		"above":           {[]Entry{s.putZeros("a", limit+1)}, 29, 29, 29, true, 45, 45},
		"second below":    {[]Entry{s.putZeros("a", limit-1-header("a")), s.putZeros("b", 0)}, 9, 9, 9, true, 20, 20},
		"second at":       {[]Entry{s.putZeros("a", limit-header("a")), s.putZeros("b", 0)}, 9, 9, 21, true, 20, 45},
		"both":            {[]Entry{s.putZeros("a", 5<<30), s.putZeros("b", 5<<30)}, 29, 29, 37, true, 45, 45},
		"directory at":    {[]Entry{s.putZeros("a", limit-header("a"))}, 9, 9, 9, true, 20, 20},
		"directory below": {[]Entry{s.putZeros("a", limit-1-header("a"))}, 9, 9, 9, false, 20, 20},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := mustLayout(t, c.entries)
			n := len(c.entries)
			local, first, last := localHeader(&c.entries[0]), a.centralHeader(0), a.centralHeader(n-1)
			u16 := binary.LittleEndian.Uint16
			if got := [...]int{int(u16(local[28:])), int(u16(first[30:])), int(u16(last[30:]))}; got != [...]int{c.local, c.central, c.last} {
				t.Errorf("extra fields of %v bytes, want %v", got, [...]int{c.local, c.central, c.last})
			}
			if u16(local[4:]) != c.needsFirst || u16(last[6:]) != c.needsLast {
				t.Errorf("needs version %d and %d", u16(local[4:]), u16(last[6:]))
			}
			if end64 := len(a.endRecords()) > endSize; end64 != c.end64 {
				t.Errorf("ZIP64 end record: %v", end64)
			}
			z, err := zip.NewReader(readCounts{t, a, s}, int64(a.Size()))
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range z.File {
				if f.UncompressedSize64 != uint64(c.entries[i].Size) {
					t.Errorf("%s has %d bytes", f.Name, f.UncompressedSize64)
				}
				if _, err := f.Open(); err != nil {
					t.Errorf("%s: local header: %v", f.Name, err)
				}
			}
		})
	}
}

func TestManyEntriesHaveAZip64EndRecord(t *testing.T) {
	t.Parallel()
	for _, n := range []int{65_534, 65_535, 65_536} {
		entries := make([]Entry, n)
		for i := range entries {
			entries[i] = Text(fmt.Sprintf("%05d", i), 0, nil)
		}
		a := mustLayout(t, entries)
		if end64 := len(a.endRecords()) > endSize; end64 != (n >= 65_535) {
			t.Errorf("%d entries: ZIP64 end record: %v", n, end64)
		}
		z, err := zip.NewReader(bytes.NewReader(mustRead(t, a, newShelf(), 0, a.Size(), Options{})), int64(a.Size()))
		if err != nil || len(z.File) != n {
			t.Errorf("%d entries: %v", n, err)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	at := func(s string) drive.Time {
		std, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return drive.TimeOf(std)
	}
	for _, c := range []struct {
		time drive.Time
		dos  string
		unix bool
	}{
		{0, "1980-01-01T00:00:00Z", false},
		{at("1955-05-05T05:05:05Z"), "1980-01-01T00:00:00Z", false},
		{at("1975-05-05T05:05:05Z"), "1980-01-01T00:00:00Z", true},
		{at("2026-11-20T17:30:07+08:00"), "2026-11-20T09:30:06Z", true},
		{at("2038-01-19T03:14:07Z"), "2038-01-19T03:14:06Z", true},
		{at("2038-01-19T03:14:08Z"), "2038-01-19T03:14:08Z", false},
		{at("2200-01-01T00:00:00Z"), "2107-12-31T23:59:58Z", false},
	} {
		clock, date := dosTime(c.time)
		got := time.Date(1980+int(date>>9), time.Month(date>>5&15), int(date&31), int(clock>>11), int(clock>>5&63), int(clock&31)*2, 0, time.UTC)
		if got.Format(time.RFC3339) != c.dos {
			t.Errorf("%v is %v", c.time, got)
		}
		if has := len(appendTime(nil, c.time)) > 0; has != c.unix {
			t.Errorf("%v: extended timestamp: %v", c.time, has)
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	t.Parallel()
	s := newShelf()
	lying := Text("a", 0, []byte("x"))
	lying.CRC32++
	for what, entries := range map[string][]Entry{
		"a way out":               {s.put("../a", nil)},
		"the same name":           {s.put("a", nil), s.put("A", nil)},
		"a file that is a folder": {s.put("a", nil), s.put("a/b", nil)},
		"a device":                {s.put("nul.txt", nil)},
		"a name of nothing":       {s.put("", nil)},
		"a wrong sum of a text":   {lying},
		"a size without content":  {{Name: "a", Size: 5}},
		"a sum of nothing":        {{Name: "a", CRC32: 5, Blob: "b"}},
		"two contents":            {{Name: "a", Size: 1, Blob: "b", Inline: []byte("x")}},
		"a folder with content":   {{Name: "a/", Size: 1, Blob: "b"}},
		"a negative size":         {{Name: "a", Size: -1, Blob: "b"}},
	} {
		if _, err := Layout(entries); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
}

func TestETag(t *testing.T) {
	t.Parallel()
	_, entries := mixed()
	tag := mustLayout(t, entries).ETag()
	if again := mustLayout(t, entries).ETag(); again != tag {
		t.Errorf("%s, then %s", tag, again)
	}
	for what, change := range map[string]func(e *Entry){
		"name": func(e *Entry) { e.Name = "b" },
		"size": func(e *Entry) { e.Size++ },
		"sum":  func(e *Entry) { e.CRC32++ },
		"time": func(e *Entry) { e.Time++ },
		"blob": func(e *Entry) { e.Blob = "another" },
	} {
		_, changed := mixed()
		change(&changed[6])
		if mustLayout(t, changed).ETag() == tag {
			t.Errorf("another %s, the same tag", what)
		}
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	a := mustLayout(t, entries)
	all := mustRead(t, a, s, 0, a.Size(), Options{})
	const size = 700_001
	var got []byte
	for k := range a.Parts(size) {
		from, to := a.Part(k, size)
		got = append(got, mustRead(t, a, s, from, to, Options{})...)
	}
	if !bytes.Equal(got, all) {
		t.Error("the parts are not the whole")
	}
	if from, to := a.Part(a.Parts(size), size); from != to {
		t.Errorf("after the last part there is [%d, %d)", from, to)
	}
}
