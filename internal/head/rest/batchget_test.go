package rest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Many files are downloaded in one stream, each with its node or, if preferred, its revision. An
// unreadable file is replaced by a problem, and the other files arrive.
func TestManyFilesInOneAnswer(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	content := map[string][]byte{"a.txt": []byte("a file"), "empty": {}, "large": bytes.Repeat([]byte("0123456789abcdef"), 20_000)}
	var ids []any
	ann.put(t, "/Plans/a.txt", []byte("as it was before"))
	for _, name := range []string{"a.txt", "empty", "large"} {
		ids = append(ids, ann.put(t, "/Plans/"+name, content[name])["id"])
	}
	ids = append(ids, bob.put(t, "/secret", []byte("of another"))["id"], ann.at(t, "/Plans"))
	all := []string{"200 a.txt rev 2", "200 empty rev 1", "200 large rev 1", "404 not-found", "400 bad-request", "end 200"}
	for _, test := range []struct {
		prefer, applied string
	}{
		{"", ""},
		{"return=representation", ""},
		{"return=minimal", "return=minimal"},
		{`respond-async, Return="Minimal"`, "return=minimal"},
	} {
		r := ann.post(t, "/batch/contents", map[string]any{"nodes": ids}, "Prefer", test.prefer)
		if got := r.Header.Get("Preference-Applied"); r.StatusCode != http.StatusOK || got != test.applied {
			t.Errorf("Prefer: %s: %v, applied %q", test.prefer, r, got)
		}
		var got []string
		for in := bufio.NewReader(bytes.NewReader(r.body)); ; {
			raw, err := in.ReadBytes('\n')
			if err == io.EOF && len(raw) == 0 {
				break
			}
			var line struct {
				N           *int
				Status, Rev int
				Size        int
				Node        *struct {
					Name string
					Rev  int
				}
				Problem struct{ Code string }
			}
			if err != nil || json.Unmarshal(raw, &line) != nil {
				t.Fatalf("%q, %v", raw, err)
			}
			if (line.Node != nil) != (line.Size+line.Status > 0 && line.N != nil && line.Status == http.StatusOK && test.applied == "") {
				t.Errorf("Prefer: %s: %s", test.prefer, raw)
			}
			switch {
			case line.N == nil:
				got = append(got, fmt.Sprintf("end %d", line.Status))
			case *line.N != len(got):
				t.Fatalf("line %d is that of file %d", len(got), *line.N)
			case line.Status != http.StatusOK:
				got = append(got, fmt.Sprintf("%d %s", line.Status, line.Problem.Code))
			default:
				name := []string{"a.txt", "empty", "large"}[*line.N]
				if line.Node != nil {
					name, line.Rev = line.Node.Name, line.Node.Rev
				}
				got = append(got, fmt.Sprintf("%d %s rev %d", line.Status, name, line.Rev))
				body := make([]byte, line.Size)
				if _, err := io.ReadFull(in, body); err != nil || !bytes.Equal(body, content[name]) {
					t.Errorf("%s: %d bytes, %v, or they differ", name, line.Size, err)
				}
			}
		}
		if d := cmp.Diff(all, got); d != "" {
			t.Errorf("Prefer: %s: %s", test.prefer, d)
		}
	}
}
