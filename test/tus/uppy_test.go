package tus

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"example.org/smartdrive/internal/testkit/servicetest"
)

// pseudo is the content that clients/page.mjs makes.
func pseudo(size int, seed uint32) []byte {
	buf := make([]byte, size)
	for i := range buf {
		seed = seed*1103515245 + 12345
		buf[i] = byte(seed >> 24)
	}
	return buf
}

const chromiumService servicetest.Service = "chromium"

// chromium is the browser, which Node.js drives.
func chromium(t testing.TB) string {
	t.Helper()
	node(t)
	return needs(t, chromiumService, "chromium")
}

// uploaded is what Uppy says in the end.
type uploaded struct {
	Successful []string // addresses
	Failed     []string // why
	Cut        bool     // it was not cut, though it should have been
}

// uppy runs a script in a page.
func (d *drive) uppy(script string, arguments map[string]any) (u uploaded) {
	d.t.Helper()
	args, err := json.Marshal(arguments)
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.CommandContext(d.t.Context(), node(d.t), "clients/uppy.mjs", chromium(d.t), script, string(args))
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if jsonErr := json.Unmarshal(out, &u); err != nil || jsonErr != nil {
		d.t.Fatalf("%v %v\n%s%s", err, jsonErr, out, messages.String())
	}
	return u
}

// Uppy in a browser, on a page of another origin: folders, a pause in the middle, parallel uploads.
func TestUppy(t *testing.T) {
	t.Parallel()
	chromium(t)
	d := newDrive(t, "--cors-origins", "*")
	type file struct {
		Name         string `json:"name"`
		Size         int    `json:"size"`
		Seed         uint32 `json:"seed"`
		RelativePath string `json:"relativePath,omitempty"`
	}
	for _, c := range []struct {
		files    []file
		parallel int
		cut      bool
		at       []string
	}{
		{[]file{{"a.bin", 12_000_001, 1, "album/deep/a.bin"}, {"b.bin", 7, 2, "album/b.bin"}, {"c.bin", 3_000_000, 3, ""}}, 1, true, []string{"/album/deep/a.bin", "/album/b.bin", "/c.bin"}},
		{[]file{{"d.bin", 20_000_003, 4, ""}}, 3, false, []string{"/d.bin"}},
	} {
		result := d.uppy("clients/page.mjs", map[string]any{"endpoint": d.url + "/tus/", "token": d.token, "files": c.files, "parallel": c.parallel, "cut": c.cut})
		if len(result.Successful) != len(c.files) || len(result.Failed) > 0 || result.Cut {
			t.Errorf("Uppy says %+v", result)
		}
		for i, f := range c.files {
			d.holds(c.at[i], pseudo(f.Size, f.Seed))
		}
	}
}
