package tus

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
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

// A final upload whose partial ones are not complete is refused, as tusd does. The partial ones
// stay as they are.
func TestConcatenationOfWhatIsNotComplete(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	content := noise(2*mib+5, 30)
	partial := func(length ...string) string { return d.create(with(append(length, "Upload-Concat", "partial")...)) }
	one, two := partial("Upload-Length", fmt.Sprint(mib)), partial("Upload-Defer-Length", "1")
	d.patch(one, chunk(0), content[:1000], 204, 1000)
	ask := with("Upload-Concat", final(one, two), "Upload-Metadata", metadata("filename", "whole"))
	refused := func(what, open string) {
		t.Helper()
		a := d.ask(http.MethodPost, "/tus/", ask, nil)
		if a.status != 400 || !strings.Contains(a.String(), "parts-missing") || !strings.Contains(a.String(), path.Base(open)) {
			t.Errorf("%s: %s", what, a)
		}
	}
	refused("one without its last bytes, one without a length", one)
	d.patch(one, chunk(1000), content[1000:mib], 204, mib)
	d.patch(two, chunk(0), content[mib:2*mib], 204, mib)
	refused("one without a length", two)
	d.patch(two, chunk(mib, "Upload-Length", fmt.Sprint(mib+5)), nil, 204, mib)
	refused("one without its last bytes", two)
	d.patch(two, chunk(mib), content[2*mib:], 204, mib+5)
	d.create(ask)
	d.holds("/whole", content)
}
