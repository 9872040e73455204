package client

import (
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/client/clienttest"
)

// A name that is not UTF-8 is not sent, so that it cannot be stored under another name.
func TestTextThatIsNotUTF8IsNotSent(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.Store("/f", randomBytes(1, 10), mtime)
	c := newClient(t, s)
	const bad = "caf\xe9"
	for name, call := range map[string]func() error{
		"a folder": func() error { _, _, err := c.MakeFolder(t.Context(), "/a/"+bad); return err },
		"a move":   func() error { _, err := c.ChangeNode(t.Context(), "x", Change{Name: bad}); return err },
		"a copy":   func() error { _, err := c.CopyNode(t.Context(), "x", Root, bad, Fail); return err },
		"an upload": func() error {
			_, err := c.BeginUpload(t.Context(), NewUpload{Path: "/" + bad})
			return err
		},
		"an export":   func() error { _, err := c.CreateExport(t.Context(), NewExport{Name: bad}); return err },
		"one in it":   func() error { _, err := c.CreateExport(t.Context(), NewExport{Nodes: []string{"x", bad}}); return err },
		"a digest of": func() error { _, err := encode(map[string]any{"a": &NewUpload{Digests: Digests{bad: ""}}}); return err },
	} {
		if err := call(); !errors.Is(err, errNotUTF8) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := s.CountRequests(func(string, string) bool { return true }); n != 0 {
		t.Errorf("%d requests", n)
	}
	now := time.Now()
	for _, good := range []any{nil, "\ufffd", []byte{0xff}, Change{Name: "café", Mtime: &now}, []any{"a", 1, nil, map[string]*int{}}} {
		if _, err := encode(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
}

// In a batch, only the item with such a name fails.
func TestBatchSkipsItemThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	s := clienttest.New(t)
	s.EnableBatches(true)
	items := []BatchItem{{Op: BatchFolder, Path: "/caf\xe9"}, {Op: BatchFolder, Path: "/b"}}
	answers, err := newClient(t, s).Batch(t.Context(), items)
	if err != nil || !errors.Is(answers[0].Err, errNotUTF8) || answers[1].Node == nil || answers[1].Node.Path != "/b" {
		t.Errorf("%+v, %v", answers, err)
	}
	if answers, err = newClient(t, s).Batch(t.Context(), items[:1]); err != nil || !errors.Is(answers[0].Err, errNotUTF8) {
		t.Errorf("alone: %+v, %v", answers, err)
	}
}
