package zipline

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// testdata/golden.txt has name, size, SHA-256 and ETag of three archives. A changed line breaks
// every running download during an upgrade: it requires a new LayoutVersion, and the old layout
// must stay for archives sealed with it.
func TestGolden(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("testdata", "golden.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, g := range goldens() {
		entries, err := Decode(Encode(g.entries))
		if err != nil {
			t.Fatal(err)
		}
		a := mustLayout(t, entries)
		h := sum(t, a, g.src)
		fmt.Fprintf(&got, "%s %d %x %s\n", g.name, a.Size(), h.Sum(nil), a.ETag())
	}
	if got.String() != string(want) {
		t.Errorf("these archives are no longer what they were:\n%swere\n%s", got.String(), want)
	}
}

type golden struct {
	name    string
	src     Source
	entries []Entry
}

// goldens returns a mixed batch, one with more than 65,535 entries, and one beyond 4 GiB, of which
// only the glue is hashed.
func goldens() []golden {
	s, batch := mixed()
	many := make([]Entry, 66_000)
	for i := range many {
		many[i] = Text(fmt.Sprintf("d%d/%05d", i%7, i), drive.Time(i)*86_400_000, nil)
	}
	h, large := huge()
	return []golden{{"mixed", s, batch}, {"many", newShelf(), many}, {"huge", h, large}}
}

// sum hashes an archive without the contents of entries over 1 GiB.
func sum(t *testing.T, a *Archive, src Source) hash.Hash {
	t.Helper()
	h, at := sha256.New(), drive.ByteSize(0)
	write := func(to drive.ByteSize) {
		r := a.Open(t.Context(), src, at, to, Options{VerifyLimit: 1})
		defer r.Close()
		if _, err := io.Copy(h, r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range a.Len() {
		if e := a.Entry(i); e.Size > drive.GiB {
			from, to := a.contentRange(i)
			write(drive.ByteSize(from))
			at = drive.ByteSize(to)
		}
	}
	write(a.Size())
	return h
}
