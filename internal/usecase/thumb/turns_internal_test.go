package thumb

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// TestKindsOfFilesDoNotWaitForEachOther: neither a video nor an image waits for PDFs of any
// account. A PDF waits for earlier PDFs.
func TestKindsOfFilesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	for _, c := range []struct {
		name, content string
		waits         bool
	}{
		{"pdf", "%PDF-1.7 and so on", true},
		{"video", "\x1aE\xdf\xa3 and so on..", false},
		{"image", png, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := New(Options{Dir: dir, Child: []string{"/nowhere/smartdrive"}})
				for _, h := range helpers() {
					m.helpers = append(m.helpers, installed{h, "/nowhere/" + h.kind})
				}
				src := Source{Sum: c.name, Open: func(context.Context) (File, error) {
					return content{bytes.NewReader([]byte(c.content))}, nil
				}}
				end, err := m.light.Acquire(t.Context(), drive.NewID[drive.AccountID]()) // a PDF that takes long
				if err != nil {
					t.Fatal(err)
				}
				defer end()
				began := time.Now()
				_, err = m.Make(t.Context(), drive.NewID[drive.AccountID](), src, 256)
				if waited := time.Since(began); err == nil || (waited > 0) != c.waits {
					t.Errorf("waited %v: %v", waited, err) // there is no helper program, so it fails as soon as it gets a worker
				}
			})
		})
	}
}
