package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// What follows a body whose end two parties may see at different places is not a request: the
// answer comes, and the connection ends.
func TestConnectionClosesAfterTwoLengths(t *testing.T) {
	t.Parallel()
	var second atomic.Int64
	s := running(t, Options{}, func(mux *http.ServeMux) {
		bodyRoutes(mux)
		mux.HandleFunc("GET /second", func(http.ResponseWriter, *http.Request) { second.Add(1) })
	})
	const next = "GET /second HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, head := range map[string]string{
		"length first":   "PUT /read HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"encoding first": "PUT /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n",
		"not read":       "PUT /refuse HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", s.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, head+"3\r\nabc\r\n0\r\n\r\n"+next); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPut})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || !resp.Close {
				t.Errorf("%s, close %v: %v", resp.Status, resp.Close, err)
			}
			if b, _ := in.Peek(1); len(b) > 0 {
				t.Error("there is another answer")
			}
		})
	}
	t.Cleanup(func() {
		if n := second.Load(); n > 0 {
			t.Errorf("%d requests were seen behind the bodies", n)
		}
	})
}
