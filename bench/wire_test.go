//go:build linux

package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
)

// wire is a minimal client connection with keep-alive. It is cheap because client and server share
// two cores.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	host string
	auth string
}

func dial(tb testing.TB, s *server) *wire {
	tb.Helper()
	u, err := url.Parse(s.url)
	must(tb, err)
	conn, err := net.Dial("tcp", u.Host)
	must(tb, err)
	w := &wire{conn: conn, in: bufio.NewReader(conn), host: u.Host}
	if s.token != "" {
		w.auth = "Authorization: Bearer " + s.token + "\r\n"
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return w
}

// begin sends the header of a PUT.
func (w *wire) begin(path string, size int64) error {
	_, err := fmt.Fprintf(w.conn, "PUT %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n", path, w.host, w.auth, size)
	return err
}

// put sends a body, repeated times times, and reads the response.
func (w *wire) put(path string, body []byte, times int) error {
	head := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n", path, w.host, w.auth, len(body)*times)
	first := net.Buffers{[]byte(head), body}
	if _, err := first.WriteTo(w.conn); err != nil {
		return err
	}
	for range times - 1 {
		if _, err := w.conn.Write(body); err != nil {
			return err
		}
	}
	return w.answer()
}

// answer reads a response, which must be a success.
func (w *wire) answer() error {
	resp, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s", resp.Status, text)
	}
	return err
}
