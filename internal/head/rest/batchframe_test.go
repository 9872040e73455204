package rest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/batch"
)

// FuzzFrames checks that a batch of any input ends, that its numbers increase, that no item has
// more bytes than its line says, and that all input is accounted for as lines, line ends or bytes.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{
		"", "{}\n", `{"op":"folder","path":"/a"}` + "\n", `{"op":"put","path":"/a","size":3}` + "\nabc" + `{"op":"trash","path":"/a"}` + "\n",
		`{"op":"put","path":"/a","size":3}` + "\nab", `{"n":5,"op":"put","size":1}` + "\nx" + `{"n":5,"op":"trash"}` + "\n", `{"op":"put","path":"/a","size":1e3}` + "\n",
		" \n" + `{"op":"folder","path":"/a"}` + "\n", "{\n" + `{"op":"folder","path":"/a"}` + "\n",
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, read bool) {
		src := newFrames(io.NopCloser(bytes.NewReader(raw)), func(*batchItem) (batch.Item, error) { return batch.Item{}, nil })
		last, total := -1, 0
		for {
			item, err := src.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				if !drive.IsKind(err, drive.BadRequest, drive.TooLarge) {
					t.Fatalf("%q: %v", raw, err)
				}
				if _, again := src.Next(); again == nil || src.Err() == nil {
					t.Fatalf("%q goes on after %v", raw, err)
				}
				return
			}
			if item.N <= last || item.N >= batch.MaxItems || len(item.Text) > maxLine {
				t.Fatalf("%q: item %d after %d", raw, item.N, last)
			}
			last = item.N
			total += len(item.Text) + 1
			if item.Body == nil {
				continue
			}
			want := src.rest.left
			if !read {
				total += int(want)
				continue
			}
			got, err := io.Copy(io.Discard, item.Body)
			if err == nil && got != want || got > want {
				t.Fatalf("%q: item %d has %d bytes, want %d", raw, item.N, got, want)
			}
			total += int(got)
		}
		if total != len(raw) {
			t.Fatalf("%q: %d bytes were read of %d", raw, total, len(raw))
		}
	})
}
