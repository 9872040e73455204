package pdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// files returns the contents of the embedded files, by name and relationship.
func files(t *testing.T, raw []byte) (map[string]string, error) {
	t.Helper()
	d, err := Open(bytes.NewReader(raw), int64(len(raw)), Limits{File: 8 << 20})
	if err != nil {
		return nil, err
	}
	all, err := d.Files()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, f := range all {
		in, err := f.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		found[f.Name+" "+f.Relationship] = string(content)
	}
	return found, nil
}

func TestEmbeddedFilesAreFound(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("<a>invoice</a>", 1000)
	for name, opt := range map[string]invoicetest.PDF{
		"a plain table":                      {},
		"a stream of tables":                 {Streams: true},
		"objects in streams":                 {Streams: true, Packed: true},
		"associated only":                    {Associated: true},
		"a name in UTF-16, an update behind": {Updated: true},
	} {
		got, err := files(t, opt.Embed("factur-x.xml", []byte(text)))
		if err != nil || got["factur-x.xml Alternative"] != text || len(got) != 1 {
			t.Errorf("%s: %d files, error %v", name, len(got), err)
		}
	}
	for _, before := range []string{"\r\n", "MIME-Version: 1.0\r\n\r\n"} { // offsets count from the header
		shifted := append([]byte(before), invoicetest.PDF{Streams: true}.Embed("factur-x.xml", []byte(text))...)
		if got, err := files(t, shifted); err != nil || got["factur-x.xml Alternative"] != text {
			t.Errorf("after %q: %d files, error %v", before, len(got), err)
		}
	}
	if got, err := files(t, invoicetest.PDF{}.Embed("", nil)); err != nil || len(got) != 0 {
		t.Errorf("nothing embedded: %v, error %v", got, err)
	}
}

func TestHostileFilesAreRefused(t *testing.T) {
	t.Parallel()
	plain := string(invoicetest.PDF{}.Embed("factur-x.xml", []byte("<a/>")))
	streams := string(invoicetest.PDF{Streams: true}.Embed("factur-x.xml", []byte("<a/>")))
	bomb := invoicetest.PDF{}.Embed("factur-x.xml", bytes.Repeat([]byte(" "), 9<<20))
	nested := "/X " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + " /Root 1 0 R"
	at := strings.LastIndex(plain, "startxref\n") + len("startxref\n")
	for name, c := range map[string]struct {
		in   string
		want Kind
	}{
		"not a PDF":          {"<html>", Damaged},
		"cut":                {plain[:len(plain)/2], Damaged},
		"encrypted":          {strings.Replace(plain, "/Root 1 0 R", "/Encrypt 9 0 R /Root 1 0 R", 1), Encrypted},
		"a table of itself":  {strings.Replace(plain, "/Root 1 0 R", "/Prev "+plain[at:strings.LastIndex(plain, "\n%%EOF")]+" /Root 1 0 R", 1), Damaged},
		"a million objects":  {strings.Replace(plain, "xref\n0 ", "xref\n999999 1\n0 ", 1), Limit},
		"many in a stream":   {strings.Replace(streams, "/Size ", "/Size 99999999", 1), Limit},
		"a place beyond":     {plain[:at] + "99999999999\n%%EOF", Damaged},
		"names of itself":    {strings.Replace(plain, "/Names [", "/Kids [3 0 R 3 0 R 3 0 R] /Was [", 1), Damaged},
		"deep":               {strings.Replace(plain, "/Root 1 0 R", nested, 1), Limit},
		"a bomb":             {string(bomb), Limit},
		"of another filter":  {strings.Replace(plain, "/FlateDecode", "/LZWDecode  ", 1), Unknown},
		"of several filters": {strings.Replace(plain, "/Filter /FlateDecode", "/Filter[/A85 /Fl ]  ", 1), Unknown},
		"a broken stream":    {strings.Replace(plain, "stream\nx", "stream\nQ", 1), Damaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := files(t, []byte(c.in))
			ours, ok := errors.AsType[*Error](err)
			if !ok || ours.Kind != c.want {
				t.Errorf("%v, want kind %d", err, c.want)
			}
		})
	}
}

// TestObjectsCostLittle opens a file with nearly the maximum number of objects.
func TestObjectsCostLittle(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("%PDF-1.7\nxref\n0 190000\n")
	for range 190_000 {
		rows.WriteString("0000000009 00000 n \n")
	}
	rows.WriteString("trailer\n<< /Root 1 0 R >>\nstartxref\n9\n%%EOF")
	in := strings.NewReader(rows.String())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Open(in, in.Size(), Limits{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("%d bytes for 190,000 objects", used)
	}
}

// TestErrorsOfTheReaderStayThemselves checks that an error of the reader is returned as such.
func TestErrorsOfTheReaderStayThemselves(t *testing.T) {
	t.Parallel()
	gone := errors.New("the disk is gone")
	raw := invoicetest.PDF{Streams: true, Packed: true}.Embed("factur-x.xml", []byte("<a/>"))
	for calls := range 12 {
		in := &failing{in: bytes.NewReader(raw), left: calls, err: gone}
		d, err := Open(in, int64(len(raw)), Limits{})
		if err == nil {
			_, err = d.Files()
		}
		if err != nil && !errors.Is(err, gone) {
			t.Errorf("after %d reads: %v", calls, err)
		}
	}
}

// failing is a file whose reads fail with err after a number of calls.
type failing struct {
	in   io.ReaderAt
	left int
	err  error
}

// ReadAt implements io.ReaderAt.
func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return f.in.ReadAt(p, off)
}

func FuzzOpen(f *testing.F) {
	for _, opt := range []invoicetest.PDF{{}, {Streams: true}, {Streams: true, Packed: true}, {Associated: true}, {Updated: true}} {
		f.Add(opt.Embed("factur-x.xml", []byte("<a/>")))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		limits := Limits{Objects: 1000, Loads: 200, Work: 4 << 20, Unpack: 1 << 20, File: 1 << 20}
		d, err := Open(bytes.NewReader(raw), int64(len(raw)), limits)
		if err == nil {
			var all []File
			if all, err = d.Files(); err == nil {
				for _, file := range all {
					if in, err := file.Open(); err == nil {
						_, err = io.Copy(io.Discard, in)
						check(t, err)
					} else {
						check(t, err)
					}
				}
			}
		}
		check(t, err)
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*Error](err); err != nil && !ok {
		t.Error(fmt.Errorf("not one of ours: %w", err))
	}
}
