package client_test

import (
	"testing"

	"example.org/smartdrive/client"
)

func TestPathsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][3]string{ // cleaned, its folder, joined with x
		"":             {"/", "/", "/x"},
		"a":            {"/a", "/", "/a/x"},
		"/a/b/":        {"/a/b", "/a", "/a/b/x"},
		"//Design":     {"//Design", "//Design", "//Design/x"},
		"//Design/":    {"//Design", "//Design", "//Design/x"},
		"//Design/a":   {"//Design/a", "//Design", "//Design/a/x"},
		"//Design/a/b": {"//Design/a/b", "//Design/a", "//Design/a/b/x"},
		"//Design/../": {"//Design", "//Design", "//Design/x"},
	} {
		got := [3]string{client.CleanPath(in), client.DirPath(client.CleanPath(in)), client.JoinPath(client.CleanPath(in), "x")}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
