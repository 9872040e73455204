package resumable

import (
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

func field(lines ...string) http.Header { return http.Header{"X": lines} }

func TestFields(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"?1": "true", "?0": "false", " ?1 ": "true", "?1;a": "true", "?0; a=1;b=\"x;\\\"y\";c=:AA==:;d=?1;*e=1.5;f=@12;g=tok/en": "false",
		"": "", "?2": "", "1": "", "true": "", "?1;": "", "?1;A": "", "?1;a=": "", "?1,?1": "", "?1 x": "", `?1;a="`: "", "?1;a=:AA": "", "?1;a b": "",
	} {
		value, there := boolean(field(in), "X")
		if got := map[bool]string{true: "true", false: "false"}[value]; there != (want != "") || there && got != want {
			t.Errorf("%q is %v, %v", in, value, there)
		}
	}
	for in, want := range map[string]drive.ByteSize{
		"0": 0, "42": 42, "042": 42, "999999999999999": 999999999999999, "7;a=1": 7,
		"": -1, "-1": -1, "1.0": -1, "?1": -1, "1000000000000000": -1, "1e3": -1, `"1"`: -1, "+1": -1,
	} {
		if n, there := integer(field(in), "X"); there != (want >= 0) || there && n != want {
			t.Errorf("%q is %d, %v", in, n, there)
		}
	}
	if _, there := boolean(field("?1", "?1"), "X"); there {
		t.Error("two lines were taken for one value")
	}
	if _, there := integer(http.Header{}, "X"); there {
		t.Error("something was found in an absent field")
	}
}

func FuzzBoolean(f *testing.F) {
	f.Add("?1;a=b")
	f.Fuzz(func(t *testing.T, s string) {
		value, there := boolean(field(s), "X")
		if there && !strings.HasPrefix(strings.TrimLeft(s, " "), formatBoolean(value)) {
			t.Errorf("%q is %v", s, value)
		}
	})
}

func FuzzInteger(f *testing.F) {
	f.Add("42;a")
	f.Fuzz(func(t *testing.T, s string) {
		n, there := integer(field(s), "X")
		if there && (n < 0 || n > 999_999_999_999_999 || !strings.Contains(s, formatInteger(n))) {
			t.Errorf("%q is %d", s, n)
		}
	})
}

// skipParameters terminates and does not read beyond its input.
func FuzzParameters(f *testing.F) {
	f.Add(`;a=1;b="x";c=:AA==:`)
	f.Fuzz(func(t *testing.T, s string) {
		if skipParameters(s) && s != "" && s[0] != ';' {
			t.Errorf("%q is taken for parameters", s)
		}
	})
}
