package client

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"unicode/utf8"

	"lukechampine.com/blake3"
)

// FuzzBatchAnswers: for any reply, reading ends; each item is answered at most once, and a batch
// succeeds only if all items have an answer.
func FuzzBatchAnswers(f *testing.F) {
	for _, seed := range []string{
		"", "{}\n", `{"n":0,"status":201,"node":{"id":"a"}}` + "\n" + `{"n":1,"status":409,"problem":{"code":"name-taken"}}` + "\n" + `{"n":2,"status":204}` + "\n" + `{"status":200}` + "\n",
		`{"n":0,"status":201}` + "\n" + `{"n":0,"status":404,"problem":{}}` + "\n", `{"n":-1}` + "\n", `{"n":3}` + "\n", `{"n":1,"status":20`, `{"status":503,"problem":{"code":"stopping"}}` + "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := &batchRun{items: make([]BatchItem, 3), answers: make([]BatchResult, 3), done: make([]bool, 3), remaining: 3}
		err := b.readAnswers(t.Context(), bytes.NewReader(raw))
		left := 0
		for i, done := range b.done {
			if !done {
				left++
				if b.answers[i].Node != nil || b.answers[i].Err != nil {
					t.Errorf("%q: item %d has an answer and is not done", raw, i)
				}
			}
		}
		if left != b.remaining || err == nil && left > 0 {
			t.Errorf("%q: %d items are left, %d are counted, %v", raw, left, b.remaining, err)
		}
		if err == nil && !bytes.HasSuffix(bytes.TrimRight(raw, "\n"), []byte("}")) && !bytes.Contains(raw, []byte("\n")) {
			t.Errorf("%q was taken for whole", raw)
		}
	})
}

// FuzzBatchBody: the body of a batch follows docs/formats/batch.md for any items; items that are
// not UTF-8 are not sent.
func FuzzBatchBody(f *testing.F) {
	f.Add("/a", []byte("content\n{}"), "/b\n")
	f.Add("\x80", []byte("0"), "0")
	f.Add("0", []byte("0"), "\x80")
	f.Fuzz(func(t *testing.T, path string, content []byte, other string) {
		b := &batchRun{items: []BatchItem{{Op: BatchPut, Path: path, Content: content}, {Op: BatchMove, Path: other, To: path}}, answers: make([]BatchResult, 2), done: make([]bool, 2)}
		if err := b.encodeItems(); err != nil {
			t.Fatal(err)
		}
		body, size := b.body()
		raw, err := io.ReadAll(body)
		if err != nil || int64(len(raw)) != size {
			t.Fatalf("%d bytes, %v, want %d", len(raw), err, size)
		}
		in := bufio.NewReader(bytes.NewReader(raw))
		for i, item := range b.items {
			if (utf8.ValidString(item.Path) && utf8.ValidString(item.To)) == b.done[i] {
				t.Fatalf("item %d: not sent: %v", i, b.done[i])
			}
			if b.done[i] {
				continue
			}
			line, err := in.ReadBytes('\n')
			var got struct {
				N    *int
				Size int64
			}
			if err != nil || json.Unmarshal(line, &got) != nil || got.N == nil || *got.N != i || got.Size != int64(len(item.Content)) {
				t.Fatalf("item %d is %q, %v", i, line, err)
			}
			bytes := make([]byte, got.Size)
			if _, err := io.ReadFull(in, bytes); err != nil || string(bytes) != string(item.Content) {
				t.Fatalf("item %d has %q, %v", i, bytes, err)
			}
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Fatal("something follows")
		}
	})
}

// FuzzStream: for any reply instead of a stream, reading ends; a file is created only with the
// bytes of its digest.
func FuzzStream(f *testing.F) {
	line := func(n int, content string) string {
		sum := blake3.Sum256([]byte(content))
		return fmt.Sprintf(`{"n":%d,"status":200,"size":%d,"node":{"id":"x","digests":{"blake3":"%s"}}}`+"\n%s", n, len(content), hex.EncodeToString(sum[:]), content)
	}
	for _, seed := range []string{
		"", `{"n":0,"status":200,"rev":7,"size":3}` + "\none" + `{"n":1,"status":200,"rev":8,"size":3}` + "\none" + `{"status":200}` + "\n",
		line(0, "one") + line(1, "two") + `{"status":200}` + "\n", line(0, "one"), line(1, "one"), line(0, "one")[:100],
		`{"n":0,"status":404,"problem":{"code":"not-found"}}` + "\n" + line(1, ""), `{"n":0,"size":-1}` + "\n", `{"n":0,"size":9999999999}` + "\nx",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer closeQuietly(root)
		c := &collector{root: root, pool: &pool{cancel: func(error) {}}, run: downloadRun{root: root}}
		one := blake3.Sum256([]byte("one"))
		node := Node{Rev: 7, Digests: Digests{blake3Name: hex.EncodeToString(one[:])}}
		all := []queuedFile{{rel: "a", node: node}, {rel: "b", node: node}}
		c.run.recordFolders(all)
		s := newStream(c, all, true)
		s.reader = bufio.NewReaderSize(bytes.NewReader(raw), maxLine)
		defer s.dirs.close()
		var over bool
		for err := error(nil); !over && err == nil; {
			over, err = c.next(t.Context(), s)
		}
		left := over && s.consumed != len(all) && len(s.retryAlone) == 0 // only what is too large to wait for ends a stream early
		if s.consumed > len(all) || left || len(s.staged)+len(s.changed)+len(s.retryAlone) > s.consumed {
			t.Errorf("%q: %d files of %d, over %t, %d here, %d changed, %d odd", raw, s.consumed, len(all), over, len(s.staged), len(s.changed), len(s.retryAlone))
		}
		for _, f := range s.staged {
			content, err := root.ReadFile(f.part)
			if sum := blake3.Sum256(content); err != nil || hex.EncodeToString(sum[:]) != f.node.Digests[blake3Name] {
				t.Errorf("%q: %s has %q, %v", raw, f.rel, content, err)
			}
		}
	})
}
