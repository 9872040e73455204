package drive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

func reason(t *testing.T, err error) string {
	t.Helper()
	var e *drive.Error
	if !errors.As(err, &e) || e.Kind != drive.BadName {
		t.Fatalf("got %v, want a bad name", err)
	}
	return fmt.Sprint(e.Args["reason"])
}

func TestParseName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a.txt": "a.txt", "CON": "CON", "e\u0301": "\u00e9", "文件": "文件", " ": " ", "...": "...",
		strings.Repeat("x", 255): strings.Repeat("x", 255),
	} {
		if got, err := drive.ParseName(in); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"": "empty", ".": "dots", "..": "dots", "a/b": "slash", "a\x00": "control", "a\nb": "control", "\x7f": "control",
		"\xff": "not-utf8", strings.Repeat("x", 256): "too-long",
	} {
		_, err := drive.ParseName(in)
		if got := reason(t, err); got != want {
			t.Errorf("%q: refused as %s, want %s", in, got, want)
		}
	}
}

func TestParsePath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{"/": 0, "/a": 1, "/a/b c/文": 3} {
		if got, err := drive.ParsePath(in); err != nil || len(got) != want || got.String() != in {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"": "not-absolute", "a": "not-absolute", "//": "empty", "/a/": "empty", "/a/../b": "dots",
		strings.Repeat("/a", 129): "too-deep", strings.Repeat("/"+strings.Repeat("x", 255), 17): "path-too-long",
	} {
		_, err := drive.ParsePath(in)
		if got := reason(t, err); got != want {
			t.Errorf("%q: refused as %s, want %s", in, got, want)
		}
	}
}

func TestFoldEqualizesClashingNames(t *testing.T) {
	t.Parallel()
	for a, b := range map[drive.Name]drive.Name{"Straße": "STRASSE", "ÉCOLE": "école", "README": "ReadMe"} {
		if a.Fold() != b.Fold() {
			t.Errorf("%s and %s fold to %q and %q", a, b, a.Fold(), b.Fold())
		}
	}
}

func TestByteSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]drive.ByteSize{"0": 0, "512": 512, "8MiB": 8 << 20, "10 GiB": 10 << 30, "1B": 1} {
		if got, err := drive.ParseByteSize(in); err != nil || got != want {
			t.Errorf("%q: got %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-1", "8MB", "1.5GiB", "9999999999TiB", "MiB"} {
		if got, err := drive.ParseByteSize(in); err == nil {
			t.Errorf("%q was taken as %d", in, got)
		}
	}
	if got := fmt.Sprint(drive.ByteSize(8<<20), drive.ByteSize(3<<29), drive.ByteSize(17)); got != "8MiB 1536MiB 17B" {
		t.Error(got)
	}
}

func TestJSONForms(t *testing.T) {
	t.Parallel()
	type doc struct {
		ID   drive.UploadID `json:"id"`
		Size drive.ByteSize `json:"size"`
		At   drive.Time     `json:"at"`
	}
	in := doc{drive.NewID[drive.UploadID](), 5 << 30, drive.TimeOf(time.Date(2026, 11, 20, 12, 0, 0, 7e6, time.UTC))}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`{"id":"%s","size":5368709120,"at":"2026-11-20T12:00:00.007Z"}`, in.ID); string(raw) != want {
		t.Errorf("got %s, want %s", raw, want)
	}
	var out doc
	if err := json.Unmarshal(raw, &out); err != nil || out != in {
		t.Errorf("came back as %+v, %v", out, err)
	}
}

func TestParseIDAcceptsOnlyCanonicalForm(t *testing.T) {
	t.Parallel()
	id := drive.NewID[drive.NodeID]()
	if got, err := drive.ParseID[drive.NodeID](id.String()); err != nil || got != id {
		t.Errorf("got %v, %v", got, err)
	}
	for _, in := range []string{"", "x", strings.ToUpper(id.String()), "{" + id.String() + "}", strings.ReplaceAll(id.String(), "-", "")} {
		if _, err := drive.ParseID[drive.NodeID](in); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	quota := drive.Fail(drive.Quota, "needed", 5)
	for _, c := range []struct {
		err  error
		want drive.Kind
	}{
		{quota, drive.Quota},
		{fmt.Errorf("begin: %w", quota), drive.Quota},
		{drive.Wrap(quota, drive.Unavailable), drive.Unavailable},
		{context.Canceled, drive.Unavailable},
		{errors.New("?"), drive.Internal},
	} {
		if got := drive.KindOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	if drive.IsKind(nil, drive.Internal) {
		t.Error("nil is of a kind")
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"a", "..", "e\u0301", "\xff", "a/b", strings.Repeat("é", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		name, err := drive.ParseName(in)
		if err != nil {
			return
		}
		again, err := drive.ParseName(string(name))
		if err != nil || again != name {
			t.Fatalf("%q became %q and then %q, %v", in, name, again, err)
		}
		if len(name) > drive.MaxNameBytes || strings.ContainsAny(string(name), "/\x00") || !utf8.ValidString(string(name)) {
			t.Fatalf("%q was let through", name)
		}
	})
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"/", "/a/b", "a", "//", "/../x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		path, err := drive.ParsePath(in)
		if err != nil {
			return
		}
		again, err := drive.ParsePath(path.String())
		if err != nil || again.String() != path.String() {
			t.Fatalf("%q became %q and then %v, %v", in, path, again, err)
		}
	})
}
