package zipline

import (
	"fmt"
	"testing"
)

func tenThousand() []Entry {
	entries := make([]Entry, 10_000)
	for i := range entries {
		entries[i] = Entry{
			Name: fmt.Sprintf("盘/店铺%02d/发票%05d.pdf", i%100, i), Size: 100_000, Time: sealed, Blob: fmt.Sprintf("put-0001-%032d", i),
		}
	}
	return entries
}

func BenchmarkDecode(b *testing.B) {
	frozen := Encode(tenThousand())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(frozen); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLayout(b *testing.B) {
	entries := tenThousand()
	b.ReportAllocs()
	for b.Loop() {
		mustLayout(b, entries)
	}
}

func BenchmarkSafeNames(b *testing.B) {
	entries := tenThousand()
	wanted := make([]string, len(entries))
	for i := range entries {
		wanted[i] = entries[i].Name
	}
	for b.Loop() {
		SafeNames(wanted)
	}
}
