package export

import (
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A failing document is a line of err.txt without details of the server's settings. The other
// documents arrive.
func TestFailureIsLineOfErrTxt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serve := w.serve
	w.serve = func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login.pdf", "/note.txt":
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(rw, "<!doctype html><title>Please log in</title>")
		case "/empty.pdf", "/empty.txt":
		case "/late.pdf": // readers accept bytes before the PDF header
			_, _ = io.WriteString(rw, "\n\nmail header\n%PDF-1.4 late")
		default:
			serve(rw, r)
		}
	}
	e := w.process(w.db, "one")
	v := w.create(t, e, Request{Name: "in", Manifest: []Item{
		{ID: "1", URL: w.url("/good.pdf")},
		{ID: "2", URL: "https://elsewhere.example/x.pdf"},
		{ID: "3", URL: w.url("/login.pdf")},
		{ID: "4", URL: w.url("/empty.pdf")},
		{ID: "5", URL: w.url("/note.txt")},
		{ID: "6", URL: w.url("/empty.txt")},
		{ID: "7", URL: w.url("/login.pdf"), Name: "folder/X.PDF"},
		{ID: "8", URL: w.url("/late.pdf")},
	}})
	w.finish(t, e)
	failures, err := e.Errors(t.Context(), w.who, v.ID, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	type line struct{ ID, Reason, Detail string }
	var got []line
	for _, f := range failures {
		got = append(got, line{f.Doc, f.Reason, f.Detail})
	}
	html := `Content-Type "text/html; charset=utf-8"`
	if diff := cmp.Diff([]line{{"2", "not-allowed", ""}, {"3", "not-pdf", html}, {"4", "empty", ""}, {"7", "not-pdf", html}}, got); diff != "" {
		t.Error(diff)
	}
	_, files := w.download(t, e, v.ID)
	if len(files) != 5 || files["in/late.pdf"] != "\n\nmail header\n%PDF-1.4 late" || files["in/note.txt"] == "" {
		t.Errorf("the zip has %v", files)
	}
	w.check(t)
}
