package dav_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/dav"
)

// What is put is there, byte for byte, with one tag in all answers.
func TestPutAndGet(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	made := s.do(t, "PUT /dav/files/a%20b.txt", "X-OC-Mtime: 1700000000", "", "hello").want(t, http.StatusCreated)
	tag := made.header.Get("ETag")
	if tag == "" || made.header.Get("X-OC-Mtime") != "accepted" {
		t.Errorf("the answer to PUT has the headers %v", made.header)
	}
	got := s.do(t, "GET /dav/files/a%20b.txt").want(t, http.StatusOK).has(t, "hello")
	if got.header.Get("ETag") != tag || got.header.Get("Last-Modified") != "Tue, 14 Nov 2023 22:13:20 GMT" {
		t.Errorf("PUT answered the tag %s; GET has the headers %v", tag, got.header)
	}
	s.do(t, "PROPFIND /dav/files/a%20b.txt", "Depth: 0").want(t, http.StatusMultiStatus).has(t,
		"<D:href>/dav/files/a%20b.txt</D:href>", strings.ReplaceAll(tag, `"`, "&#34;"), "<D:getcontentlength>5</D:getcontentlength>")
	part := s.do(t, "GET /dav/files/a%20b.txt", "Range: bytes=1-2").want(t, http.StatusPartialContent)
	if part.body != "el" {
		t.Errorf("bytes 1-2 are %q", part.body)
	}
	s.do(t, "GET /dav/files/a%20b.txt", "If-None-Match: "+tag).want(t, http.StatusNotModified)
	s.do(t, "PUT /dav/files/a%20b.txt", `If-Match: "other"`, "", "bad").want(t, http.StatusPreconditionFailed)
	s.do(t, "PUT /dav/files/a%20b.txt", "If-None-Match: *", "", "bad").want(t, http.StatusPreconditionFailed)
	s.do(t, "PUT /dav/files/a%20b.txt", "If-Match: "+tag, "", "again").want(t, http.StatusNoContent)
	s.do(t, "GET /dav/files/a%20b.txt").has(t, "again")
}

// cutBody breaks off after some bytes.
type cutBody struct{ io.Reader }

func (c cutBody) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// A body that is cut leaves what was there, and where nothing was, nothing: never an empty file
// (D3).
func TestCutBodiesLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do(t, "PUT /dav/files/old", "", "old content").want(t, http.StatusCreated)
	long := strings.Repeat("x", 300<<10)
	for name, put := range map[string]struct {
		header http.Header
		body   io.Reader
	}{
		"cut within the first bytes": {http.Header{}, cutBody{strings.NewReader("abc")}},
		"cut at once":                {http.Header{}, cutBody{strings.NewReader("")}},
		"cut later":                  {http.Header{}, cutBody{strings.NewReader(long)}},
		"shorter than expected":      {http.Header{"X-Expected-Entity-Length": {"10"}}, io.MultiReader(strings.NewReader("abc"))},
		"nothing of what is expected": {
			http.Header{"X-Expected-Entity-Length": {"10"}}, io.MultiReader(strings.NewReader("")),
		},
		"emptied by a proxy":   {http.Header{"X-Expected-Entity-Length": {"10"}}, strings.NewReader("")},
		"longer than expected": {http.Header{"X-Expected-Entity-Length": {"2"}}, io.MultiReader(strings.NewReader("abc"))},
		"neither length nor body": {
			http.Header{}, nil,
		},
	} {
		for _, path := range []string{"/dav/files/new", "/dav/files/old"} {
			if got := s.send(t, "PUT "+path, put.header.Clone(), put.body); got.status < 400 || got.status >= 500 {
				t.Errorf("%s: PUT %s: status %d\n%s", name, path, got.status, got.body)
			}
		}
	}
	s.do(t, "GET /dav/files/new").want(t, http.StatusNotFound)
	s.do(t, "GET /dav/files/old").want(t, http.StatusOK).has(t, "old content")
	s.do(t, "PROPFIND /dav/files/", "Depth: 1").lacks(t, "new")
	s.send(t, "PUT /dav/files/new", http.Header{"X-Expected-Entity-Length": {"3"}}, io.MultiReader(strings.NewReader("abc"))).want(t, http.StatusCreated)
	s.do(t, "PUT /dav/files/empty", "", "").want(t, http.StatusCreated)
}

// What is not there is 404, whatever its name; what is in the way has the status of RFC 4918.
func TestStatuses(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do(t, "MKCOL /dav/files/dir").want(t, http.StatusCreated)
	s.do(t, "PUT /dav/files/dir/f", "", "f").want(t, http.StatusCreated)
	for line, status := range map[string]int{
		"GET /dav/files/none":                http.StatusNotFound,
		"GET /dav/files/none/below":          http.StatusNotFound,
		"GET /dav/files/a%00b":               http.StatusNotFound,
		"DELETE /dav/files/none":             http.StatusNotFound,
		"PROPFIND /dav/elsewhere":            http.StatusNotFound,
		"PROPFIND /dav/spaces/none/":         http.StatusNotFound,
		"PUT /dav/files/a%01b":               http.StatusBadRequest,
		"MKCOL /dav/files/dir":               http.StatusMethodNotAllowed,
		"MKCOL /dav/files/dir/f":             http.StatusMethodNotAllowed,
		"MKCOL /dav/files/":                  http.StatusMethodNotAllowed,
		"MKCOL /dav/files/none/below":        http.StatusConflict,
		"MKCOL /dav/files/dir/f/below":       http.StatusConflict,
		"MKCOL /dav/other":                   http.StatusNotFound,
		"DELETE /dav/files/":                 http.StatusForbidden,
		"DELETE /dav/":                       http.StatusForbidden,
		"PROPFIND /dav/files/":               http.StatusForbidden, // no Depth: infinity
		"PATCH /dav/files/dir":               http.StatusMethodNotAllowed,
		"COPY /dav/files/dir":                http.StatusBadRequest,
		"OPTIONS /dav/files/anything/at/all": http.StatusOK,
	} {
		if got := s.do(t, line); got.status != status {
			t.Errorf("%s: status %d, want %d\n%s", line, got.status, status, got.body)
		}
	}
	s.do(t, "PUT /dav/files/dir", "", "no file").want(t, http.StatusMethodNotAllowed)
	s.do(t, "PUT /dav/files/none/below", "", "no folder").want(t, http.StatusConflict)
	s.do(t, "PUT /dav/files/f", "Content-Range: bytes 0-1/5", "", "no").want(t, http.StatusBadRequest)
	s.do(t, "PROPFIND /dav//files//dir//f", "Depth: 0").want(t, http.StatusMultiStatus).has(t, "<D:href>/dav/files/dir/f</D:href>")
	s.do(t, "PROPFIND /dav/files/dir", "Depth: infinity").want(t, http.StatusForbidden).has(t, "<D:propfind-finite-depth>")
	s.do(t, "MOVE /dav/files/dir", "Destination: /dav/files/dir/below").want(t, http.StatusForbidden)
	s.do(t, "MOVE /dav/files/dir", "Destination: /dav/files/dir").want(t, http.StatusForbidden)
	s.do(t, "MOVE /dav/files/dir/f", "Destination: /dav/files/dir").want(t, http.StatusForbidden)
	s.do(t, "MOVE /dav/files/dir/f", "Destination: http://other.example/else/where").want(t, http.StatusForbidden)
	s.do(t, "COPY /dav/files/dir/f", "Destination: /dav/files/none/below").want(t, http.StatusConflict)
	s.do(t, "COPY /dav/files/dir/f", "Destination: /dav/files/dir", "Overwrite: F").want(t, http.StatusPreconditionFailed)
	opt := s.do(t, "OPTIONS /dav/")
	if !slices.Contains(slices.Collect(maps.Keys(opt.header)), "DAV") { // as it is written: some clients compare it with its case
		t.Errorf("OPTIONS has the headers %v", opt.header)
	}
}

// A MOVE or COPY onto a file adds a version to it: its id and its history stay (D4), and nothing is
// charged twice.
func TestMoveOntoAFileIsAVersion(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, verb := range []string{"MOVE", "COPY"} {
		t.Run(verb, func(t *testing.T) {
			s.do(t, "PUT /dav/files/db.kdbx", "", "first").want(t, http.StatusCreated)
			before, err := s.files.GetByPath(t.Context(), s.who, drive.Address{Path: drive.Path{"db.kdbx"}})
			if err != nil {
				t.Fatal(err)
			}
			s.do(t, "PUT /dav/files/db.kdbx.tmp", "", "second").want(t, http.StatusCreated)
			s.do(t, verb+" /dav/files/db.kdbx.tmp", "Destination: http://host/dav/files/db.kdbx").want(t, http.StatusNoContent)
			s.do(t, "GET /dav/files/db.kdbx").want(t, http.StatusOK).has(t, "second")
			after, err := s.files.GetByPath(t.Context(), s.who, drive.Address{Path: drive.Path{"db.kdbx"}})
			if err != nil || after.ID != before.ID {
				t.Errorf("the file is %v now and was %v (%v)", after.ID, before.ID, err)
			}
			versions, err := s.files.Versions(t.Context(), s.who, after.ID, "", 10)
			if err != nil || len(versions.Items) != 2 {
				t.Errorf("it has %d versions (%v)", len(versions.Items), err)
			}
			s.CheckLedger(t, s.who)
			s.do(t, "DELETE /dav/files/db.kdbx").want(t, http.StatusNoContent)
			if verb == "MOVE" {
				s.do(t, "GET /dav/files/db.kdbx.tmp").want(t, http.StatusNotFound)
			}
		})
	}
}

// An account that is full to the last byte can still save by a file beside: what goes makes room
// for what comes.
func TestMoveOntoAFileNeedsNoRoom(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.do(t, "PUT /dav/files/doc", "", "12345").want(t, http.StatusCreated)
	s.do(t, "PUT /dav/files/tmp", "", "67890").want(t, http.StatusCreated)
	s.SetTotal(t, s.who, 10)
	s.do(t, "MOVE /dav/files/tmp", "Destination: /dav/files/doc").want(t, http.StatusNoContent)
	s.do(t, "GET /dav/files/doc").has(t, "67890")
	s.CheckLedger(t, s.who)
	s.do(t, "PUT /dav/files/more", "", "x").want(t, http.StatusInsufficientStorage)
}

// What desktops leave behind is kept, hidden in listings or refused, as the administrator chose.
func TestLitter(t *testing.T) {
	t.Parallel()
	for policy, want := range map[dav.Litter]struct {
		status int
		listed bool
	}{dav.Keep: {http.StatusCreated, true}, dav.Hide: {http.StatusCreated, false}, dav.Refuse: {http.StatusForbidden, false}} {
		s := newStack(t, func(o *dav.Options) { o.Litter = policy })
		for _, name := range []string{"._a", ".DS_Store", "Thumbs.db", "~$a.docx", "desktop.ini"} {
			s.do(t, "PUT /dav/files/"+name, "", "x").want(t, want.status)
			listed := strings.Contains(s.do(t, "PROPFIND /dav/files/", "Depth: 1").body, name)
			if listed != want.listed {
				t.Errorf("%s: %s is listed: %v", policy, name, listed)
			}
		}
		s.do(t, "PUT /dav/files/a.docx", "", "x").want(t, http.StatusCreated)
	}
}
