package dav_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/dav"
)

// A client that finds another time than the one it has sent would send the file for ever.
func TestTimesBeforeAndAtTheEpoch(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for sent, kept := range map[string]string{
		"0": "Thu, 01 Jan 1970 00:00:00 GMT", "-1": "Wed, 31 Dec 1969 23:59:59 GMT", "-157680000": "Sat, 02 Jan 1965 00:00:00 GMT",
		"1": "Thu, 01 Jan 1970 00:00:01 GMT",
	} {
		s.Do(t, "PUT /dav/files/f", "X-OC-Mtime: "+sent, "", "of "+sent)
		s.Do(t, "PROPFIND /dav/files/f", "Depth: 0").Want(t, http.StatusMultiStatus).Has(t, "<D:getlastmodified>"+kept+"</D:getlastmodified>")
	}
}

// What is put is there, byte for byte, with one tag in all answers.
func TestPutAndGet(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	made := s.Do(t, "PUT /dav/files/a%20b.txt", "X-OC-Mtime: 1700000000", "", "hello").Want(t, http.StatusCreated)
	tag := made.Header.Get("ETag")
	if tag == "" || made.Header.Get("X-OC-Mtime") != "accepted" {
		t.Errorf("the answer to PUT has the headers %v", made.Header)
	}
	got := s.Do(t, "GET /dav/files/a%20b.txt").Want(t, http.StatusOK).Has(t, "hello")
	if got.Header.Get("ETag") != tag || got.Header.Get("Last-Modified") != "Tue, 14 Nov 2023 22:13:20 GMT" {
		t.Errorf("PUT answered the tag %s; GET has the headers %v", tag, got.Header)
	}
	s.Do(t, "PROPFIND /dav/files/a%20b.txt", "Depth: 0").Want(t, http.StatusMultiStatus).Has(t,
		"<D:href>/dav/files/a%20b.txt</D:href>", strings.ReplaceAll(tag, `"`, "&quot;"), "<D:getcontentlength>5</D:getcontentlength>")
	part := s.Do(t, "GET /dav/files/a%20b.txt", "Range: bytes=1-2").Want(t, http.StatusPartialContent)
	if part.Body != "el" {
		t.Errorf("bytes 1-2 are %q", part.Body)
	}
	s.Do(t, "GET /dav/files/a%20b.txt", "If-None-Match: "+tag).Want(t, http.StatusNotModified)
	s.Do(t, "PUT /dav/files/a%20b.txt", `If-Match: "other"`, "", "bad").Want(t, http.StatusPreconditionFailed)
	s.Do(t, "PUT /dav/files/a%20b.txt", "If-None-Match: *", "", "bad").Want(t, http.StatusPreconditionFailed)
	s.Do(t, "PUT /dav/files/a%20b.txt", "If-Match: "+tag, "", "again").Want(t, http.StatusNoContent)
	s.Do(t, "GET /dav/files/a%20b.txt").Has(t, "again")
}

// A client that sends a date as its precondition, and no tag, replaces, moves and deletes only a
// file with that date.
func TestConcurrentChangeIsKept(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT /dav/files/f", "X-OC-Mtime: 1700000000", "", "theirs").Want(t, http.StatusCreated)
	const seen, now, none = "If-Unmodified-Since: Tue, 14 Nov 2023 22:13:19 GMT", "If-Unmodified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
		"If-Unmodified-Since: yesterday"
	s.Do(t, "PUT /dav/files/f", seen, "", "mine").Want(t, http.StatusPreconditionFailed)
	s.Do(t, "DELETE /dav/files/f", seen).Want(t, http.StatusPreconditionFailed)
	s.Do(t, "MOVE /dav/files/f", seen, "Destination: /dav/files/g").Want(t, http.StatusPreconditionFailed)
	got := s.Do(t, "GET /dav/files/f").Want(t, http.StatusOK).Has(t, "theirs")
	s.Do(t, "PUT /dav/files/new", seen, "", "there was nothing").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/f", seen, "If-Match: "+got.Header.Get("ETag"), "X-OC-Mtime: 1700000000", "", "by tag").Want(t, http.StatusNoContent)
	s.Do(t, "PUT /dav/files/f", now, "X-OC-Mtime: 1700000000", "", "same").Want(t, http.StatusNoContent)
	s.Do(t, "PUT /dav/files/f", none, "", "no date").Want(t, http.StatusNoContent)
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

// An interrupted PUT keeps the old file, or leaves no file if there was none; it never leaves an
// empty file (D3).
func TestCutBodiesLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT /dav/files/old", "", "old content").Want(t, http.StatusCreated)
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
			if got := s.Send(t, "PUT "+path, put.header.Clone(), put.body); got.Status < 400 || got.Status >= 500 {
				t.Errorf("%s: PUT %s: status %d\n%s", name, path, got.Status, got.Body)
			}
		}
	}
	s.Do(t, "GET /dav/files/new").Want(t, http.StatusNotFound)
	s.Do(t, "GET /dav/files/old").Want(t, http.StatusOK).Has(t, "old content")
	s.Do(t, "PROPFIND /dav/files/", "Depth: 1").Lacks(t, "new")
	s.Send(t, "PUT /dav/files/new", http.Header{"X-Expected-Entity-Length": {"3"}}, io.MultiReader(strings.NewReader("abc"))).Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/empty", "", "").Want(t, http.StatusCreated)
}

// A missing resource is 404, whatever its name; conflicts have the status of RFC 4918.
func TestStatuses(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "MKCOL /dav/files/dir").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/dir/f", "", "f").Want(t, http.StatusCreated)
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
		if got := s.Do(t, line); got.Status != status {
			t.Errorf("%s: status %d, want %d\n%s", line, got.Status, status, got.Body)
		}
	}
	s.Do(t, "PUT /dav/files/dir", "", "no file").Want(t, http.StatusMethodNotAllowed)
	s.Do(t, "PUT /dav/files/none/below", "", "no folder").Want(t, http.StatusConflict)
	s.Do(t, "PUT /dav/files/f", "Content-Range: bytes 0-1/5", "", "no").Want(t, http.StatusBadRequest)
	s.Do(t, "GET /dav/files/dir", "Accept: application/zip").Want(t, http.StatusNotAcceptable)
	s.Do(t, "GET /dav/files/dir?accept=zip", "Accept: */*").Want(t, http.StatusNotAcceptable)
	s.Do(t, "GET /dav/files/dir", "Accept: application/xml;q=0.9, */*;q=0.8").Want(t, http.StatusOK)
	s.Do(t, "PUT /dav/files/f-chunking-1795831507-5-0", "OC-Chunked: 1", "", "no").Want(t, http.StatusBadRequest).Has(t, "OC-Chunked")
	s.Do(t, "PROPFIND /dav//files//dir//f", "Depth: 0").Want(t, http.StatusMultiStatus).Has(t, "<D:href>/dav/files/dir/f</D:href>")
	s.Do(t, "PROPFIND /dav/files/dir", "Depth: infinity").Want(t, http.StatusForbidden).Has(t, "<D:propfind-finite-depth>")
	s.Do(t, "MOVE /dav/files/dir", "Destination: /dav/files/dir/below").Want(t, http.StatusForbidden)
	s.Do(t, "MOVE /dav/files/dir", "Destination: /dav/files/dir").Want(t, http.StatusForbidden)
	s.Do(t, "MOVE /dav/files/dir/f", "Destination: /dav/files/dir").Want(t, http.StatusForbidden)
	s.Do(t, "MOVE /dav/files/dir/f", "Destination: http://other.example/else/where").Want(t, http.StatusForbidden)
	s.Do(t, "COPY /dav/files/dir/f", "Destination: /dav/files/none/below").Want(t, http.StatusConflict)
	s.Do(t, "COPY /dav/files/dir/f", "Destination: /dav/files/dir", "Overwrite: F").Want(t, http.StatusPreconditionFailed).
		Has(t, "name-taken", "&quot;dir&quot;").Lacks(t, "If-Match")
	opt := s.Do(t, "OPTIONS /dav/")
	if !slices.Contains(slices.Collect(maps.Keys(opt.Header)), "DAV") { // as it is written: some clients compare it with its case
		t.Errorf("OPTIONS has the headers %v", opt.Header)
	}
}

// A MOVE or COPY onto a file adds a version to it: its id and its history stay (D4), and nothing is
// charged twice.
func TestMoveOntoAFileIsAVersion(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, verb := range []string{"MOVE", "COPY"} {
		t.Run(verb, func(t *testing.T) {
			s.Do(t, "PUT /dav/files/db.kdbx", "", "first").Want(t, http.StatusCreated)
			before, err := s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: drive.Path{"db.kdbx"}})
			if err != nil {
				t.Fatal(err)
			}
			s.Do(t, "PUT /dav/files/db.kdbx.tmp", "", "second").Want(t, http.StatusCreated)
			s.Do(t, verb+" /dav/files/db.kdbx.tmp", "Destination: http://host/dav/files/db.kdbx").Want(t, http.StatusNoContent)
			s.Do(t, "GET /dav/files/db.kdbx").Want(t, http.StatusOK).Has(t, "second")
			after, err := s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: drive.Path{"db.kdbx"}})
			if err != nil || after.ID != before.ID {
				t.Errorf("the file is %v now and was %v (%v)", after.ID, before.ID, err)
			}
			versions, err := s.Files.Versions(t.Context(), s.Who, after.ID, "", 10)
			if err != nil || len(versions.Items) != 2 {
				t.Errorf("it has %d versions (%v)", len(versions.Items), err)
			}
			s.CheckLedger(t, s.Who)
			s.Do(t, "DELETE /dav/files/db.kdbx").Want(t, http.StatusNoContent)
			if verb == "MOVE" {
				s.Do(t, "GET /dav/files/db.kdbx.tmp").Want(t, http.StatusNotFound)
			}
		})
	}
}

// A client can save by a temporary file even if the account is full to the last byte, because the
// replaced file frees its bytes.
func TestMoveOntoFileNeedsNoQuota(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT /dav/files/doc", "", "12345").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/tmp", "", "67890").Want(t, http.StatusCreated)
	s.SetTotal(t, s.Who, 10)
	s.Do(t, "MOVE /dav/files/tmp", "Destination: /dav/files/doc").Want(t, http.StatusNoContent)
	s.Do(t, "GET /dav/files/doc").Has(t, "67890")
	s.CheckLedger(t, s.Who)
	s.Do(t, "PUT /dav/files/more", "", "x").Want(t, http.StatusInsufficientStorage)
}

// What desktops leave behind is kept, hidden in listings or refused, as the administrator chose.
func TestLitter(t *testing.T) {
	t.Parallel()
	for policy, want := range map[dav.Litter]struct {
		status int
		listed bool
	}{dav.Keep: {http.StatusCreated, true}, dav.Hide: {http.StatusCreated, false}, dav.Refuse: {http.StatusForbidden, false}} {
		s := newStack(t, func(o *dav.Options) { o.Litter = func() dav.Litter { return policy } })
		for _, name := range []string{"._a", ".DS_Store", "Thumbs.db", "~$a.docx", "desktop.ini"} {
			s.Do(t, "PUT /dav/files/"+name, "", "x").Want(t, want.status)
			listed := strings.Contains(s.Do(t, "PROPFIND /dav/files/", "Depth: 1").Body, name)
			if listed != want.listed {
				t.Errorf("%s: %s is listed: %v", policy, name, listed)
			}
		}
		s.Do(t, "PUT /dav/files/a.docx", "", "x").Want(t, http.StatusCreated)
	}
}
