package dav

import (
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
