package server

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRanges(t *testing.T) {
	t.Parallel()
	modified := time.Date(2026, 11, 20, 9, 30, 7, 0, time.UTC)
	s := running(t, Options{}, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"tag"`)
			w.Header().Set("Content-Type", "text/plain")
			http.ServeContent(w, r, "", modified, strings.NewReader("0123456789"))
		})
	})
	const whole = "0123456789"
	for _, c := range []struct {
		name, set, ifRange string
		status             int
		body               string
	}{
		{"first and last", "bytes=2-4", "", 206, "234"},
		{"from", "bytes=7-", "", 206, "789"},
		{"suffix", "bytes=-3", "", 206, "789"},
		{"a unit in capitals", "Bytes=2-4", "", 206, "234"},
		{"another unit", "seconds=2-4", "", 200, whole},
		{"no unit", "2-4", "", 200, whole},
		{"a space in the unit", "bytes =2-4", "", 200, whole},
		{"the last 0 bytes", "bytes=-0", "", 416, ""},
		{"the last 00 bytes", "bytes=-00", "", 416, ""},
		{"the last 0 bytes, and some", "bytes=-0, 2-4", "", 206, "234"},
		{"a sign", "bytes=+1-4", "", 416, ""},
		{"a sign at the end", "bytes=1-+4", "", 416, ""},
		{"a sign in a suffix", "bytes=-+3", "", 416, ""},
		{"space within", "bytes=1 - 4", "", 416, ""},
		{"the wrong way round", "bytes=4-2", "", 416, ""},
		{"nothing", "bytes=", "", 416, ""},
		{"no numbers", "bytes=-", "", 416, ""},
		{"beyond the end", "bytes=10-", "", 416, ""},
		{"zeros before", "bytes=0000000000000000000000002-4", "", 206, "234"},
		{"an end of many digits", "bytes=8-99999999999999999999999", "", 206, "89"},
		{"a suffix of many digits", "bytes=-99999999999999999999999", "", 206, whole},
		{"a begin of many digits", "bytes=99999999999999999999999-", "", 416, ""},
		{"empty elements", "bytes=, 2-4,", "", 206, "234"},
		{"if it is this", "bytes=2-4", `"tag"`, 206, "234"},
		{"if it is another", "bytes=2-4", `"other"`, 200, whole},
		{"if it is this, weakly", "bytes=2-4", `W/"tag"`, 200, whole},
		{"if it is of this time", "bytes=2-4", modified.Format(http.TimeFormat), 200, whole},
		{"if it is nonsense", "bytes=2-4", `tag`, 200, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			header := []string{"Range", c.set}
			if c.ifRange != "" {
				header = append(header, "If-Range", c.ifRange)
			}
			resp := get(t, s, "/file", header...)
			if body := readString(t, resp); resp.StatusCode != c.status || c.body != "" && body != c.body {
				t.Errorf("%d %q, want %d %q", resp.StatusCode, body, c.status, c.body)
			}
		})
	}
	conn := exchange(t, s, "GET /file HTTP/1.1\r\nHost: x\r\nRange: bytes=1-2\r\nRange: bytes=4-5\r\n\r\n")
	if conn.StatusCode != 200 { // it is not a list: of two lines nobody knows which one counts
		t.Errorf("two headers: %d", conn.StatusCode)
	}
}

// Empty content has no last bytes. A response has a valid Content-Range or none.
func TestRangesOfAnEmptyContent(t *testing.T) {
	t.Parallel()
	s := running(t, Options{}, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
			SendContent(w, r, time.Time{}, strings.NewReader(""), 0, func(error) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) })
		})
	})
	for _, set := range []string{"bytes=-5", "bytes=-1,-2", "bytes=0-", "bytes=0-0"} {
		resp := get(t, s, "/file", "Range", set)
		if body := readString(t, resp); resp.StatusCode != http.StatusOK || body != "" || resp.Header.Get("Content-Range") != "" || resp.ContentLength != 0 {
			t.Errorf("%s: %d %q %v", set, resp.StatusCode, body, resp.Header)
		}
	}
}

func FuzzPlainRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "Bytes=-0", "bytes=1-2,-3,,", "x=1", "bytes=+1-", "bytes=99999999999999999999-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		plain, ok := normalizeRange(s)
		if !ok {
			return
		}
		again, ok := normalizeRange(plain)
		if !ok || again != plain {
			t.Errorf("%q became %q, and that %q", s, plain, again)
		}
	})
}
