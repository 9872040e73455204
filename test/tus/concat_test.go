package tus

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"smartdrive/test/process"
)

// piece uploads a partial one.
func (d *drive) piece(content []byte) string {
	d.t.Helper()
	at := d.create(with("Upload-Length", fmt.Sprint(len(content)), "Upload-Concat", "partial"))
	d.patch(at, chunk(0), content, 204, len(content))
	return at
}

func final(partials ...string) string { return "final;" + strings.Join(partials, " ") }

func TestConcatenation(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	for i, sizes := range [][]int{
		{8 * mib, 16 * mib, 5},       // each begins where a part does
		{5, 8 * mib, 3*mib + 1, 777}, // none but the first does
		{1}, {0, 4, 0},
	} {
		content := noise(sum(sizes), uint64(10+i))
		var partials []string
		offset := 0
		for _, n := range sizes {
			partials = append(partials, d.piece(content[offset:offset+n]))
			offset += n
		}
		if a := d.ask(http.MethodHead, partials[0], with(), nil); a.status != 200 || a.header.Get("Upload-Concat") != "partial" {
			t.Errorf("HEAD of a partial one: %d %v", a.status, a.header)
		}
		name := fmt.Sprintf("whole-%d", i)
		meta := metadata("filename", name)
		at := d.create(with("Upload-Concat", final(partials...), "Upload-Metadata", meta))
		d.holds("/"+name, content)
		a := d.ask(http.MethodHead, at, with(), nil)
		length := fmt.Sprint(len(content))
		if a.status != 200 || a.header.Get("Upload-Offset") != length || a.header.Get("Upload-Length") != length ||
			a.header.Get("Upload-Metadata") != meta || a.header.Get("Upload-Concat") != final(partials...) {
			t.Errorf("HEAD: %d %v", a.status, a.header)
		}
		d.patch(at, chunk(len(content)), nil, 403, -1)
		again := d.ask(http.MethodPost, "/tus/", with("Upload-Concat", final(partials...), "Upload-Metadata", meta), nil)
		if again.status != 201 || again.header.Get("Location") != at {
			t.Errorf("the same request again made something else: %s %v", again, again.header)
		}
		if again := d.ask(http.MethodPost, "/tus/", with("Upload-Concat", final(append(partials, d.piece([]byte("x")))...)), nil); again.status < 400 {
			t.Errorf("a partial one was used twice: %s", again)
		}
	}
}

func sum(sizes []int) (n int) {
	for _, s := range sizes {
		n += s
	}
	return n
}

func TestNothingOfAConcatenationIsChargedTwice(t *testing.T) {
	t.Parallel()
	boss := newDrive(t, "--upload-idle", "30s")
	d := boss.user("ann", 20*mib)
	content := noise(17*mib, 20)
	one, two := d.piece(content[:9*mib]), d.piece(content[9*mib:])
	d.create(with("Upload-Concat", final(one, two), "Upload-Metadata", metadata("filename", "fits"))) // twice as much would not
	d.holds("/fits", content)
	process.Eventually(t, time.Minute, "only the file is charged", func() error {
		if got, want := boss.balance(d), [3]int64{17 * mib, 0, 0}; got != want {
			return fmt.Errorf("charged %v, want %v", got, want)
		}
		return nil
	})
}

// A final upload is asked for before its partial ones are complete.
func TestConcatenationUnfinished(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content := noise(3*mib+5, 30)
	partial := func(length ...string) string { return d.create(with(append(length, "Upload-Concat", "partial")...)) }
	one, two := partial("Upload-Length", fmt.Sprint(mib)), partial("Upload-Defer-Length", "1")
	d.patch(one, chunk(0), content[:1000], 204, 1000)
	meta := metadata("filename", "later")
	a := d.ask(http.MethodPost, "/tus/", with("Upload-Concat", final(one, two), "Upload-Metadata", meta), nil)
	at := a.header.Get("Location")
	if a.status != 201 || at == "" || a.header.Get("Upload-Expires") == "" {
		t.Fatalf("POST: %s %v", a, a.header)
	}
	if again := d.ask(http.MethodPost, "/tus/", with("Upload-Concat", final(one, two), "Upload-Metadata", meta), nil); again.header.Get("Location") != at {
		t.Errorf("the same request again: %s %v", again, again.header)
	}
	waits := func(length string) {
		t.Helper()
		a := d.ask(http.MethodHead, at, with(), nil)
		if _, ok := a.header["Upload-Offset"]; a.status != 200 || ok || a.header.Get("Upload-Length") != length ||
			a.header.Get("Upload-Concat") != final(one, two) || a.header.Get("Upload-Metadata") != meta {
			t.Errorf("HEAD of one that waits: %d %v", a.status, a.header)
		}
	}
	waits("")
	d.patch(at, chunk(0), []byte("a"), 403, -1)
	for what, refused := range map[string]string{"with another": final(one), "in another order": final(two, one)} {
		if a := d.ask(http.MethodPost, "/tus/", with("Upload-Concat", refused), nil); a.status != 400 {
			t.Errorf("once more %s: %s", what, a)
		}
	}
	d.patch(two, chunk(0, "Upload-Length", fmt.Sprint(len(content)-mib)), content[mib:2*mib], 204, mib)
	waits(fmt.Sprint(len(content)))
	d.patch(one, chunk(1000), content[1000:mib], 204, mib)
	waits(fmt.Sprint(len(content)))
	d.patch(two, chunk(mib), content[2*mib:], 204, len(content)-mib)
	process.Eventually(t, time.Minute, "it is put together by itself", func() error {
		if a := d.ask(http.MethodHead, at, with(), nil); a.header.Get("Upload-Offset") != fmt.Sprint(len(content)) {
			return fmt.Errorf("HEAD: %d %v", a.status, a.header)
		}
		return nil
	})
	d.holds("/later", content)
	if a := d.ask(http.MethodHead, two, with(), nil); a.status != 200 || a.header.Get("Upload-Offset") != fmt.Sprint(len(content)-mib) {
		t.Errorf("who did not hear that the last byte came: %d %v", a.status, a.header)
	}

	three := partial("Upload-Length", "5")
	ended := d.create(with("Upload-Concat", final(three)))
	if a := d.ask(http.MethodDelete, three, with(), nil); a.status != 204 {
		t.Errorf("DELETE: %s", a)
	}
	if a := d.ask(http.MethodHead, ended, with(), nil); a.status != 410 {
		t.Errorf("a final of what is gone: %s", a)
	}
	four := partial("Upload-Length", "5")
	ended = d.create(with("Upload-Concat", final(four)))
	if a := d.ask(http.MethodDelete, ended, with(), nil); a.status != 204 {
		t.Errorf("DELETE: %s", a)
	}
	d.patch(four, chunk(0), []byte("hello"), 204, 5)
	d.create(with("Upload-Concat", final(four), "Upload-Metadata", metadata("filename", "after all")))
	d.holds("/after%20all", []byte("hello"))
}
