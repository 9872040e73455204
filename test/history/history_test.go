package history

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"
)

// TestContentIsTheSameInPieces: every reader sees the same bytes, at any offset and length.
func TestContentIsTheSameInPieces(t *testing.T) {
	t.Parallel()
	c := Content{Seed: 7, Size: 3*block + 1234}
	whole, err := io.ReadAll(c.Reader())
	if err != nil || int64(len(whole)) != c.Size {
		t.Fatalf("read %d bytes: %v", len(whole), err)
	}
	for _, piece := range [][2]int64{{0, 1}, {block - 1, 2}, {block, block}, {100, 2 * block}, {c.Size - 5, 50}, {c.Size, 1}} {
		want := whole[piece[0]:min(piece[0]+piece[1], c.Size)]
		if got := c.Bytes(piece[0], piece[1]); !bytes.Equal(got, want) {
			t.Errorf("bytes %v differ from the whole", piece)
		}
	}
	if (Content{Seed: 8, Size: c.Size}).Digest() == c.Digest() {
		t.Error("another seed gives the same content")
	}
}

func TestLogIsReadBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	log, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	log.Write(Record{User: "u", Op: 1, Phase: Intent, Do: Put, Path: "/a", Seed: 1 << 63, Size: 5})
	log.Write(Record{User: "u", Op: 1, Phase: Done, Do: Put, Status: 201})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	records, err := Read(path)
	if err != nil || len(records) != 2 || records[0].Seed != 1<<63 || records[1].Phase != Done || records[0].At == 0 {
		t.Errorf("read back %+v, %v", records, err)
	}
	if _, err := Parse([]byte("{\"op\":1}\n{\"op\":2}\n{\"o")); err != nil {
		t.Errorf("a line that was cut off at the end: %v", err)
	}
	if _, err := Parse([]byte("{\"op\":1}\n{\"nope\":2}\n")); err == nil {
		t.Error("a field that nobody knows passed")
	}
}
