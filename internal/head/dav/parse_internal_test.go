package dav

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseIf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]ifList{
		`(<urn:uuid:1>)`: {{"", []ifCondition{{token: "urn:uuid:1"}}}},
		`(<urn:uuid:1> ["a)b"]) (Not <DAV:no-lock> ["c"])`: {
			{"", []ifCondition{{token: "urn:uuid:1"}, {tag: `"a)b"`}}}, {"", []ifCondition{{not: true, token: "DAV:no-lock"}, {tag: `"c"`}}},
		},
		`<http://host/a> (<x>) (["y"]) </b> (not <z>)`: {
			{"http://host/a", []ifCondition{{token: "x"}}}, {"http://host/a", []ifCondition{{tag: `"y"`}}}, {"/b", []ifCondition{{not: true, token: "z"}}},
		},
	} {
		got, err := parseIf(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(ifList{}, ifCondition{})); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for _, text := range []string{"", "x", "()", "(<a>", "(<a>) x", "<a>", "<> (<a>)", "(a)", "(not)", `(["a)`, "(<>)", "([])"} {
		if got, err := parseIf(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// Python's ElementTree declares us-ascii by default, and every XML processor must read UTF-16.
func TestEncodingsOfXML(t *testing.T) {
	t.Parallel()
	wide := func(text string, big bool) string {
		var b strings.Builder
		for _, c := range "\ufeff" + text {
			if low, high := byte(c), byte(c>>8); big {
				b.Write([]byte{high, low})
			} else {
				b.Write([]byte{low, high})
			}
		}
		return b.String()
	}
	for _, text := range []string{
		`<?xml version='1.0' encoding='us-ascii'?><a>&#252;</a>`,
		`<?xml version="1.0" encoding="UTF-8"?><a>ü</a>`,
		"\ufeff" + `<?xml version="1.0" encoding="utf-8"?><a>ü</a>`,
		`<?xml version="1.0" encoding="ISO-8859-1"?>` + "<a>\xfc</a>",
		wide(`<?xml version="1.0" encoding="UTF-16"?><a>ü</a>`, true),
		wide(`<a>ü</a>`, false),
	} {
		if root, err := parseXML([]byte(text)); err != nil || root.Text != "ü" {
			t.Errorf("%q: %q, %v", text, root.Text, err)
		}
	}
	for _, text := range []string{
		`<?xml version="1.0" encoding="ebcdic"?><a/>`,
		`<?xml version="1.0" encoding="us-ascii"?>` + "<a>\xfc</a>",
		wide(`<!DOCTYPE a><a/>`, true),
	} {
		if root, err := parseXML([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, root)
		}
	}
}
