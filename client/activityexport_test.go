package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A broken export resumes after its last whole line, so that each entry is yielded once. An export
// that cannot continue ends with an error.
func TestExportActivityResumes(t *testing.T) {
	t.Parallel()
	const top = 40
	var asked []string
	for name, cut := range map[string]func(w io.Writer){
		"by the server":                 func(io.Writer) { panic(http.ErrAbortHandler) },
		"in a line":                     func(w io.Writer) { _, _ = io.WriteString(w, `{"id":"9`); panic(http.ErrAbortHandler) },
		"in a line, and nobody says so": func(w io.Writer) { _, _ = io.WriteString(w, `{"id":"9`) },
	} {
		asked = nil
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			after := r.URL.Query().Get("after")
			asked = append(asked, after)
			from := entrySeq(after)
			for i := from + 1; i <= min(top, from+7); i++ {
				_, _ = fmt.Fprintf(w, `{"id":"%d-00000000","at":"2027-01-01T00:00:00Z","data":{}}`+"\n", i)
			}
			_ = http.NewResponseController(w).Flush()
			if from+7 < top {
				cut(w)
			}
		}))
		api, err := New(Options{BaseURL: s.URL, Token: "x", RetryFor: time.Minute, MinBackoff: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for h, err := range api.ExportActivity(t.Context(), ActivityQuery{Space: "Design"}, "3-00000000") {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, entrySeq(h.ID))
		}
		s.Close()
		if len(got) != top-3 || got[0] != 4 || got[len(got)-1] != top {
			t.Errorf("%s: it gives %v", name, got)
		}
		for i, n := range got {
			if n != got[0]+int64(i) {
				t.Errorf("%s: entry %d is %d", name, i, n)
			}
		}
		if len(asked) != 6 || asked[0] != "3-00000000" || asked[1] != "10-00000000" {
			t.Errorf("%s: it asks after %v", name, asked)
		}
	}

	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer s.Close()
	api, err := New(Options{BaseURL: s.URL, Token: "x", RetryFor: time.Millisecond, MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range api.ExportActivity(t.Context(), ActivityQuery{}, "") {
		if !errors.Is(err, ErrRetriesExhausted) {
			t.Errorf("an export that never comes ends with %v", err)
		}
	}
}
