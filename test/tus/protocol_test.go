package tus

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"
)

func TestAnUploadFromEndToEnd(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content := noise(20*mib+12345, 1)
	meta := metadata("filename", "报告 1.bin", "empty", "", "filetype", "application/x-thing", "path", "/in/2026/")
	a := d.ask(http.MethodPost, "/tus/", with("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", meta), nil)
	at := a.header.Get("Location")
	if a.status != 201 || !strings.HasPrefix(at, d.url+"/tus/") || a.header.Get("Tus-Resumable") != "1.0.0" {
		t.Fatalf("POST: %s %v", a, a.header)
	}
	if expires, err := http.ParseTime(a.header.Get("Upload-Expires")); err != nil || time.Until(expires) < time.Minute {
		t.Errorf("it expires at %q", a.header.Get("Upload-Expires"))
	}
	offset := 0
	for i := 0; offset < len(content); i++ { // sizes that agree with no part
		n := min([]int{1, 65537, 3*mib + 1, 8 * mib, 0, 777, 9*mib - 1}[i%7], len(content)-offset)
		a := d.patch(at, chunk(offset), content[offset:offset+n], 204, offset+n)
		offset += n
		if done := a.header.Get("Upload-Expires") == ""; done != (offset == len(content)) {
			t.Errorf("at %d of %d it expires at %q", offset, len(content), a.header.Get("Upload-Expires"))
		}
		if offset < len(content) && i == 3 {
			h := d.ask(http.MethodHead, at, with(), nil)
			if h.status != 200 || h.header.Get("Upload-Offset") != fmt.Sprint(offset) || h.header.Get("Upload-Length") != fmt.Sprint(len(content)) ||
				h.header.Get("Upload-Metadata") != meta || h.header.Get("Cache-Control") != "no-store" || h.header.Get("Upload-Concat") != "" {
				t.Errorf("HEAD: %d %v", h.status, h.header)
			}
			if g := d.ask(http.MethodGet, at, nil, nil); g.status != 404 {
				t.Errorf("GET of an unfinished one: %s", g)
			}
		}
	}
	d.holds("/in/2026/报告%201.bin", content)
	if got := d.offset(at); got != fmt.Sprint(len(content)) {
		t.Errorf("the finished one is at %s", got)
	}
	g := d.ask(http.MethodGet, at, nil, nil)
	if file := d.ask(http.MethodGet, g.header.Get("Location"), nil, nil); g.status != 303 || file.body != string(content) ||
		file.header.Get("Content-Type") != "application/x-thing" {
		t.Errorf("GET: %s, and there %d bytes of %s", g, len(file.body), file.header.Get("Content-Type"))
	}
	if got, want := d.balance(d), [3]int64{int64(len(content)), 0, 0}; got != want {
		t.Errorf("charged %v, want %v", got, want)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	for _, path := range []string{"/tus", "/tus/", "/tus/01a1fbeb-6868-709a-9ef7-d9a59f53c9e1"} {
		a := d.ask(http.MethodOptions, path, header{"Authorization": ""}, nil)
		if a.status != 204 || a.header.Get("Tus-Version") != "1.0.0" || a.header.Get("Tus-Max-Size") != "17592186044416" ||
			a.header.Get("Tus-Checksum-Algorithm") != "sha1,md5,sha256,crc32" || a.header.Get("Tus-Extension") !=
			"creation,creation-with-upload,creation-defer-length,termination,checksum,checksum-trailer,expiration,concatenation" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
	}
}

// What is refused has changed nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	half := d.create(with("Upload-Length", "10", "Upload-Metadata", metadata("filename", "half")))
	d.patch(half, chunk(0), []byte("01234"), 204, 5)
	done := d.create(with("Upload-Length", "0", "Upload-Metadata", metadata("filename", "done")))
	partial := d.create(with("Upload-Length", "3", "Upload-Concat", "partial"))
	nobody := d.url + "/tus/01a1fbeb-6868-709a-9ef7-d9a59f53c9e1"
	other := d.user("ann", mib)
	foreign := other.create(with("Upload-Length", "1", "Upload-Metadata", metadata("filename", "hers")))
	ids := "01a1fbeb-6868-709a-9ef7-d9a59f53c9e1 " + partial
	for _, c := range []struct {
		what, method, at string
		h                header
		body             string
		status           int
	}{
		{"no version", "POST", "/tus/", header{"Upload-Length": "1"}, "", 412},
		{"another version", "HEAD", half, header{"Tus-Resumable": "0.2.2"}, "", 412},
		{"no login", "POST", "/tus/", with("Upload-Length", "1", "Authorization", ""), "", 401},
		{"no login", "HEAD", half, with("Authorization", ""), "", 401},
		{"no length", "POST", "/tus/", with(), "", 400},
		{"a length that is none", "POST", "/tus/", with("Upload-Length", "-1"), "", 400},
		{"a length that is none", "POST", "/tus/", with("Upload-Length", "ten"), "", 400},
		{"too long", "POST", "/tus/", with("Upload-Length", "17592186044417"), "", 413},
		{"more than the quota", "POST", "/tus/", with("Upload-Length", "17592186044416"), "", 507},
		{"two lengths", "POST", "/tus/", with("Upload-Length", "1", "Upload-Defer-Length", "1"), "", 400},
		{"deferred how?", "POST", "/tus/", with("Upload-Defer-Length", "2"), "", 400},
		{"metadata that is none", "POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", "filename !"), "", 400},
		{"metadata twice", "POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", "a MQ==,a MQ=="), "", 400},
		{"metadata without end", "POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", "a "+strings.Repeat("AAAA", 1100)), "", 400},
		{"a name that is none", "POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", metadata("filename", "..")), "", 400},
		{"a path that leads up", "POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", metadata("relativePath", "a/../../b")), "", 400},
		{"a digest that is none", "POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", metadata("sha256", "ab")), "", 400},
		{"a name that is taken", "POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", metadata("filename", "done", "conflict", "fail")), "", 409},
		{"bytes of another type", "POST", "/tus/", with("Upload-Length", "3", "Content-Type", "text/plain"), "abc", 415},
		{"more bytes than declared", "POST", "/tus/", with("Upload-Length", "2", "Content-Type", "application/offset+octet-stream"), "abc", 413},
		{"a wrong checksum", "POST", "/tus/", with("Upload-Length", "3", "Content-Type", "application/offset+octet-stream", "Upload-Checksum", "crc32 AAAAAA=="), "abc", 460},
		{"concatenated how?", "POST", "/tus/", with("Upload-Length", "3", "Upload-Concat", "halfway"), "", 400},
		{"of nothing", "POST", "/tus/", with("Upload-Concat", "final;"), "", 400},
		{"final with a length", "POST", "/tus/", with("Upload-Length", "3", "Upload-Concat", "final;"+partial), "", 400},
		{"of what is not there", "POST", "/tus/", with("Upload-Concat", "final;"+ids), "", 400},
		{"of a whole one", "POST", "/tus/", with("Upload-Concat", "final;"+half), "", 400},
		{"of somebody else's", "POST", "/tus/", with("Upload-Concat", "final;"+foreign), "", 400},
		{"twice the same", "POST", "/tus/", with("Upload-Concat", "final;"+partial+" "+partial), "", 400},
		{"PUT", "PUT", "/tus/", with(), "", 405},
		{"PATCH of all", "PATCH", "/tus/", chunk(0), "", 405},
		{"POST to one", "POST", half, with("Upload-Length", "1"), "", 405},
		{"overridden by nonsense", "POST", half, with("X-HTTP-Method-Override", "BREW"), "", 405},
		{"nobody's", "HEAD", nobody, with(), "", 404},
		{"nobody's", "PATCH", nobody, chunk(0), "a", 404},
		{"nobody's", "DELETE", nobody, with(), "", 404},
		{"no address", "HEAD", "/tus/x", with(), "", 404},
		{"hers", "HEAD", foreign, with(), "", 404},
		{"hers", "PATCH", foreign, chunk(0), "a", 404},
		{"hers", "DELETE", foreign, with(), "", 404},
		{"no type", "PATCH", half, chunk(5, "Content-Type", ""), "56789", 415},
		{"another type", "PATCH", half, chunk(5, "Content-Type", "application/octet-stream"), "56789", 415},
		{"no offset", "PATCH", half, chunk(5, "Upload-Offset", ""), "56789", 400},
		{"an offset that is none", "PATCH", half, chunk(5, "Upload-Offset", "five"), "56789", 400},
		{"an earlier offset", "PATCH", half, chunk(4), "56789", 409},
		{"a later offset", "PATCH", half, chunk(6), "5678", 409},
		{"more than declared", "PATCH", half, chunk(5), "5678901", 413},
		{"another length", "PATCH", half, chunk(5, "Upload-Length", "11"), "56789", 400},
		{"compressed", "PATCH", half, chunk(5, "Content-Encoding", "gzip"), "56789", 415},
		{"an unknown checksum", "PATCH", half, chunk(5, "Upload-Checksum", "sha512 AAAA"), "56789", 400},
		{"a checksum that is none", "PATCH", half, chunk(5, "Upload-Checksum", "sha1 AAAA"), "56789", 400},
		{"a wrong checksum", "PATCH", half, chunk(5, "Upload-Checksum", "crc32 AAAAAA=="), "56789", 460},
		{"a finished one", "PATCH", done, chunk(0), "a", 413},
		{"a finished one", "PATCH", done, chunk(1), "", 409},
		{"a finished one", "DELETE", done, with(), "", 403},
	} {
		a := d.ask(c.method, c.at, c.h, strings.NewReader(c.body))
		if a.status != c.status {
			t.Errorf("%s: %s %s: %s, want %d", c.what, c.method, c.at, a, c.status)
		}
		if a.header.Get("Tus-Resumable") != "1.0.0" {
			t.Errorf("%s: the version is not in the answer", c.what)
		}
		if c.status == 412 && a.header.Get("Tus-Version") != "1.0.0" {
			t.Errorf("%s: the versions are not in the answer", c.what)
		}
		if a.header.Get("Location") != "" {
			t.Errorf("%s: there is something at %s", c.what, a.header.Get("Location"))
		}
		if got := d.offset(half); got != "5" {
			t.Fatalf("%s: the offset is %s", c.what, got)
		}
	}
	var open struct{ Items []struct{ ID string } }
	d.api(http.MethodGet, "/uploads", nil, &open)
	if len(open.Items) != 2 {
		t.Errorf("%d uploads are open; the half one and the partial one should be", len(open.Items))
	}
	d.patch(half, chunk(5), []byte("56789"), 204, 10)
	d.holds("/half", []byte("0123456789"))
}

func TestCreationWithUpload(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	bytesType := []string{"Content-Type", "application/offset+octet-stream"}
	all := d.ask(http.MethodPost, "/tus", with(append(bytesType, "Upload-Length", "5", "Upload-Metadata", metadata("filename", "all"))...), strings.NewReader("hello"))
	if all.status != 201 || all.header.Get("Upload-Offset") != "5" || all.header.Get("Upload-Expires") != "" {
		t.Errorf("all at once: %s %v", all, all.header)
	}
	d.holds("/all", []byte("hello"))
	some := d.ask(http.MethodPost, "/tus/", with(append(bytesType, "Upload-Length", "10", "Upload-Metadata", metadata("name", "some"))...), strings.NewReader("hello"))
	if some.status != 201 || some.header.Get("Upload-Offset") != "5" || some.header.Get("Upload-Expires") == "" {
		t.Errorf("the first half: %s %v", some, some.header)
	}
	d.patch(some.header.Get("Location"), chunk(5), []byte("world"), 204, 10)
	d.holds("/some", []byte("helloworld"))
	none := d.create(with("Upload-Length", "0", "Upload-Metadata", metadata("filename", "none")))
	if got := d.offset(none); got != "0" {
		t.Errorf("an empty file is at %s", got)
	}
	d.holds("/none", nil)
}

func TestDeferredLength(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	at := d.create(with("Upload-Defer-Length", "1", "Upload-Metadata", metadata("filename", "stream")))
	content := noise(9*mib+5, 2)
	d.patch(at, chunk(0), content[:9*mib], 204, 9*mib)
	if a := d.ask(http.MethodHead, at, with(), nil); a.header.Get("Upload-Defer-Length") != "1" || a.header.Get("Upload-Length") != "" {
		t.Errorf("HEAD: %v", a.header)
	}
	d.patch(at, chunk(9*mib, "Upload-Length", fmt.Sprint(8*mib)), nil, 400, -1) // shorter than what is there
	d.patch(at, chunk(9*mib, "Upload-Length", fmt.Sprint(len(content))), nil, 204, 9*mib)
	if a := d.ask(http.MethodHead, at, with(), nil); a.header.Get("Upload-Defer-Length") != "" || a.header.Get("Upload-Length") != fmt.Sprint(len(content)) {
		t.Errorf("HEAD: %v", a.header)
	}
	d.patch(at, chunk(9*mib), content[9*mib:], 204, len(content))
	d.holds("/stream", content)

	known := d.create(with("Upload-Defer-Length", "1", "Upload-Metadata", metadata("filename", "known")))
	d.patch(known, chunk(0), []byte("hello"), 204, 5)
	d.patch(known, chunk(5, "Upload-Length", "5"), nil, 204, 5) // nothing more comes
	d.holds("/known", []byte("hello"))
}

func TestChecksums(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content := noise(10*mib, 3)
	at := d.create(with("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", metadata("filename", "summed")))
	one, two := content[:9*mib], content[9*mib:]
	sum := sha1.Sum(one)
	right := "sha1 " + base64.StdEncoding.EncodeToString(sum[:])
	d.patch(at, chunk(0, "Upload-Checksum", right), content[1:9*mib+1], 460, -1)
	if got := d.offset(at); got != "0" {
		t.Fatalf("%s bytes of a wrong chunk were kept", got)
	}
	d.patch(at, chunk(0, "Upload-Checksum", right), one, 204, 9*mib)

	// In a trailer: which algorithm it is, is known only then.
	trail := func(sum string) answer {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, at, io.MultiReader(bytes.NewReader(two))) // of unknown length
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range chunk(9 * mib) {
			req.Header.Set(name, value)
		}
		req.Header.Set("Authorization", "Bearer "+d.token)
		req.Trailer = http.Header{"Upload-Checksum": nil}
		if sum != "" {
			req.Trailer.Set("Upload-Checksum", sum)
		}
		resp, err := direct.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return answer{resp.StatusCode, resp.Header, string(text)}
	}
	crc := crc32.ChecksumIEEE(two)
	for sum, status := range map[string]int{"": 400, "sha512 AAAA": 400, "crc32 AAAAAA==": 460} {
		if a := trail(sum); a.status != status {
			t.Errorf("trailer %q: %s, want %d", sum, a, status)
		}
		if got := d.offset(at); got != fmt.Sprint(9*mib) {
			t.Fatalf("trailer %q: the offset is %s", sum, got)
		}
	}
	if a := trail("crc32 " + base64.StdEncoding.EncodeToString([]byte{byte(crc >> 24), byte(crc >> 16), byte(crc >> 8), byte(crc)})); a.status != 204 {
		t.Errorf("the right trailer: %s", a)
	}
	d.holds("/summed", content)
}

func TestADeclaredDigestIsVerified(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content, other := noise(2*mib, 5), noise(2*mib, 6)
	h := declared("a", content)
	at := d.create(h)
	d.patch(at, chunk(0), other, 422, -1)
	if a := d.ask(http.MethodHead, at, with(), nil); a.status != 410 {
		t.Errorf("what can never be right is still there: %s", a)
	}
	d.patch(d.create(h), chunk(0), content, 204, len(content))
	d.holds("/a", content)
	again := d.ask(http.MethodPost, "/tus/", h, nil)
	if again.status != 201 || again.header.Get("Upload-Offset") != fmt.Sprint(len(content)) {
		t.Errorf("what is there already was asked for again: %s %v", again, again.header)
	}
	d.holds("/a%20(2)", content)
}

// declared returns the headers of a creation that declares the SHA-256 of its content.
func declared(name string, content []byte) header {
	sum := sha256.Sum256(content)
	return with("Upload-Length", fmt.Sprint(len(content)), "Upload-Metadata", metadata("filename", name, "sha256", hex.EncodeToString(sum[:])))
}

// sendDeclared uploads a file whose SHA-256 is declared, so that the server knows the content by
// it.
func (d *drive) sendDeclared(name string, content []byte) {
	d.t.Helper()
	d.patch(d.create(declared(name, content)), chunk(0), content, 204, len(content))
}

// After a wrong proof for content of another account, tus continues the upload as any other, and
// there is no second question.
func TestAWrongProofContinuesTheUpload(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content := noise(2*mib, 8)
	d.sendDeclared("a", content)
	bob := d.user("bob", 10*mib)
	at := bob.create(declared("b", content))
	native := "/uploads/" + path.Base(at)
	var up struct {
		State     string
		Challenge *struct{ Nonce string }
	}
	if bob.api(http.MethodGet, native, nil, &up); up.Challenge == nil {
		t.Fatal("there is no question")
	}
	up.Challenge = nil
	bob.api(http.MethodPost, native+"/proof", map[string]string{"alg": "hmac-sha256", "answer": hex.EncodeToString(make([]byte, 32))}, &up)
	if up.State != "active" || up.Challenge != nil || bob.offset(at) != "0" {
		t.Fatalf("after a wrong answer: %+v", up)
	}
	bob.patch(at, chunk(0), content, 204, len(content))
	bob.holds("/b", content)
}

func TestTermination(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	at := d.create(with("Upload-Length", fmt.Sprint(5*mib), "Upload-Metadata", metadata("filename", "gone")))
	d.patch(at, chunk(0), noise(3*mib, 4), 204, 3*mib)
	if a := d.ask(http.MethodDelete, at, with(), nil); a.status != 204 {
		t.Fatalf("DELETE: %s", a)
	}
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete} {
		if a := d.ask(method, at, chunk(3*mib), nil); a.status != 410 {
			t.Errorf("%s afterwards: %s", method, a)
		}
	}
	if got := d.balance(d); got != [3]int64{} {
		t.Errorf("still charged %v", got)
	}
}

func TestMethodOverride(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	at := d.create(with("Upload-Length", "5", "Upload-Metadata", metadata("filename", "over")))
	h := chunk(0)
	h["X-HTTP-Method-Override"] = "PATCH"
	if a := d.ask(http.MethodPost, at, h, strings.NewReader("hello")); a.status != 204 || a.header.Get("Upload-Offset") != "5" {
		t.Errorf("POST as PATCH: %s", a)
	}
	d.holds("/over", []byte("hello"))
	if a := d.ask(http.MethodPost, at, with("X-HTTP-Method-Override", "HEAD"), nil); a.status != 200 || a.header.Get("Upload-Offset") != "5" {
		t.Errorf("POST as HEAD: %s", a)
	}
}

// A name that is taken does not cost the bytes: the client may come again when it is free.
func TestNameTakenAtCompletion(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	at := d.create(with("Upload-Length", "5", "Upload-Metadata", metadata("filename", "x", "conflict", "fail")))
	if a := d.ask(http.MethodPut, "/api/v1/files/x", nil, strings.NewReader("first")); a.status != 201 {
		t.Fatal(a)
	}
	d.patch(at, chunk(0), []byte("hello"), 409, -1)
	if a := d.ask(http.MethodHead, at, with(), nil); a.status != 409 {
		t.Errorf("HEAD says that all is well: %s", a)
	}
	d.holds("/x", []byte("first"))
	var there struct{ ID string }
	d.api(http.MethodGet, "/nodes?path=/x", nil, &there)
	d.api(http.MethodPatch, "/nodes/"+there.ID, map[string]string{"name": "y"}, nil)
	if got := d.offset(at); got != "5" {
		t.Errorf("the offset is %s", got)
	}
	d.holds("/x", []byte("hello"))

	for i, want := range []string{"/r", "/r%20(2)", "/r%20(3)"} { // without a word, another name
		content := []byte{byte(i)}
		d.patch(d.create(with("Upload-Length", "1", "Upload-Metadata", metadata("filename", "r"))), chunk(0), content, 204, 1)
		d.holds(want, content)
	}
	d.patch(d.create(with("Upload-Length", "3", "Upload-Metadata", metadata("filename", "r", "conflict", "replace"))), chunk(0), []byte("new"), 204, 3)
	d.holds("/r", []byte("new"))
}

func TestPagesOfOtherOriginsAndABaseURL(t *testing.T) {
	t.Parallel()
	d := newDrive(t, "--cors-origins", "https://app.example.org", "--base-url", "https://drive.example.org/drive")
	pre := d.ask(http.MethodOptions, d.local("/drive/tus/"), header{
		"Origin": "https://app.example.org", "Access-Control-Request-Method": "PATCH",
		"Access-Control-Request-Headers": "upload-offset,tus-resumable",
	}, nil)
	allowed := strings.ToLower(pre.header.Get("Access-Control-Allow-Headers"))
	if pre.status != 204 || !strings.Contains(allowed, "upload-offset") || !strings.Contains(allowed, "tus-resumable") ||
		!strings.Contains(pre.header.Get("Access-Control-Allow-Methods"), "PATCH") {
		t.Errorf("preflight: %s %v", pre, pre.header)
	}
	a := d.ask(http.MethodPost, d.local("/drive/tus/"), with("Upload-Length", "5", "Origin", "https://app.example.org"), nil)
	at, ok := strings.CutPrefix(a.header.Get("Location"), "https://drive.example.org/drive/tus/")
	if a.status != 201 || !ok || !strings.Contains(a.header.Get("Access-Control-Expose-Headers"), "Upload-Offset") {
		t.Errorf("POST: %s %v", a, a.header)
	}
	d.patch(d.local("/tus/"+at), chunk(0), []byte("hello"), 204, 5)
}
