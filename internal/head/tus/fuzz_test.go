package tus

import (
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// refusal fails the test unless err may be shown to clients.
func refusal(t *testing.T, err error) {
	t.Helper()
	if !drive.IsKind(err, drive.BadRequest, drive.BadName) {
		t.Errorf("refused with %v", err)
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add("filename d29ybGRfZG9taW5hdGlvbl9wbGFuLnBkZg==,is_confidential")
	f.Add("relativePath YS9iLy4uL2M=,name YQ==,type dGV4dC9wbGFpbg==,sha256 YWI=")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseMetadata(s)
		if err != nil {
			refusal(t, err)
			return
		}
		for key := range m {
			if key == "" || strings.ContainsAny(key, " ,") {
				t.Errorf("key %q in %q", key, s)
			}
		}
		b, err := m.readBegin()
		if err != nil {
			refusal(t, err)
			return
		}
		again, err := drive.ParsePath(b.Path.String())
		if err != nil || len(again) == 0 || again.String() != b.Path.String() {
			t.Errorf("path %q of %q: %v", b.Path, s, err)
		}
	})
}

func FuzzChecksum(f *testing.F) {
	f.Add("sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0=")
	f.Add("crc32 AAAAAA==")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := parseChecksum(s)
		if err != nil {
			refusal(t, err)
		} else if len(d.Value) != d.Algo.Size() {
			t.Errorf("%q is %d bytes of %s", s, len(d.Value), d.Algo)
		}
	})
}

func FuzzConcat(f *testing.F) {
	f.Add("partial")
	f.Add("final;/tus/01a1fbeb-6868-709a-9ef7-d9a59f53c9e1 https://d.example/tus/01a1fbeb-6868-709a-9ef7-d9a59f53c9e2")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseConcat(s)
		if err != nil {
			refusal(t, err)
			return
		}
		if c.final != (len(c.partials) > 0) || c.final && c.partial || c.partial != (s == partial) {
			t.Errorf("%q is %+v", s, c)
		}
		for _, id := range c.partials {
			if !strings.Contains(s, id.String()) {
				t.Errorf("%s comes from nowhere in %q", id, s)
			}
		}
	})
}

func FuzzNumber(f *testing.F) {
	f.Add("42")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseNumber("Upload-Length", s)
		if err != nil {
			refusal(t, err)
		} else if strings.TrimLeft(s, "0") != strings.TrimLeft(number(n), "0") {
			t.Errorf("%q is %d", s, n)
		}
	})
}
