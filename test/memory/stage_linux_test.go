package memory

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// stage is a server with its defaults, and who attacks it.
type stage struct {
	testing.TB
	site   *rig.Site
	server *rig.Server
	watch  *watch
	mu     sync.Mutex
	users  map[string]rig.User
}

func newStage(t testing.TB) *stage {
	t.Helper()
	site := rig.New(t)
	site.Args = []string{"--listen", process.Address(t)} // clients find it again after a restart
	server := site.Start(t)
	return &stage{TB: t, site: site, server: server, watch: newWatch(t, server.PID()), users: map[string]rig.User{}}
}

// fresh restarts the server, so that memory of an earlier attack is not counted.
func (s *stage) fresh() {
	s.Helper()
	s.server.End(s)
	for _, u := range s.users {
		u.HTTP.CloseIdleConnections()
	}
	s.server = s.site.Start(s)
	s.watch.follow(s, s.server.PID())
}

const quota = 16 << 30 // bytes

// user returns the n-th user of a name, who is made when it is first asked for.
func (s *stage) user(name string, n int) rig.User {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	name = fmt.Sprintf("%s%d", name, n)
	u, is := s.users[name]
	if !is {
		u = s.server.NewUser(s, name, quota)
		s.users[name] = u
	}
	return u
}

// from is a client without a token that comes from an address of loopback.
func (s *stage) from(address string) rig.User {
	s.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	s.Cleanup(transport.CloseIdleConnections)
	return rig.User{URL: s.server.URL, HTTP: &http.Client{Transport: transport}}
}

// ask sends a request. The server may refuse it because it is busy or out of memory budget; an
// internal error fails the test.
func (s *stage) ask(u rig.User, method, path string, body any, header ...string) rig.Reply {
	s.Helper()
	r, err := u.Try(s, method, path, body, header...)
	if err != nil && method == http.MethodGet {
		// One run of many lost a connection without a reply under full load. This test measures
		// memory, so the loss is logged and the request repeated.
		s.Logf("%s %s: %v; it is asked again", method, path, err)
		r, err = u.Try(s, method, path, body, header...)
	}
	if err != nil {
		s.Errorf("%s %s: %v", method, path, err)
		return rig.Reply{Response: &http.Response{Header: http.Header{}}}
	}
	if r.StatusCode >= 500 && r.StatusCode != http.StatusServiceUnavailable {
		s.Errorf("%s %s: %s", method, path, r)
	}
	return r
}

// insist repeats a request until the server accepts it.
func (s *stage) insist(u rig.User, method, path string, body any) (r rig.Reply) {
	s.Helper()
	s.until("there is room for "+method+" "+path, func() error {
		if r = s.ask(u, method, path, body); r.StatusCode == http.StatusServiceUnavailable {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
	return r
}

// folder makes a folder and returns its id.
func (s *stage) folder(u rig.User, parent, name string) string {
	s.Helper()
	return u.Post(s, "/nodes", map[string]any{"parent": parent, "name": name, "type": "folder"}).JSON(s, http.StatusCreated)["id"].(string)
}

// fill makes n files of a byte in a folder. Their names begin with a number.
func (s *stage) fill(u rig.User, path, name string, n int) {
	s.Helper()
	const side = 16
	each(side, func(worker int) {
		for i := worker; i < n; i += side {
			s.ask(u, "PUT", fmt.Sprintf("/files%s/%06d%s", rig.Escape(path), i, rig.Escape(name)), []byte("x"))
		}
	})
}

// each runs f for the numbers below n side by side.
func each(n int, f func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// held holds open, idle connections.
type held struct {
	mu    sync.Mutex
	conns []net.Conn
}

// open sends the beginning of a request from a local address and stops. The small receive window
// keeps the response in the server.
func (h *held) open(s *stage, address, request string, body []byte) {
	s.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	ctx, cancel := context.WithTimeout(s.Context(), rig.Patience)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(s.server.URL, "http://"))
	if err != nil {
		s.Error(err)
		return
	}
	h.mu.Lock()
	h.conns = append(h.conns, conn)
	h.mu.Unlock()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		s.Error(err)
	}
	if _, err := io.WriteString(conn, request+"\r\n\r\n"); err != nil {
		s.Error(err)
	}
	_, _ = conn.Write(body) // the server may have refused by now
}

// close closes all connections.
func (h *held) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		_ = c.Close() // the server may have closed it
	}
}

// calm waits until the server does not grow any more.
func (s *stage) calm() {
	s.Helper()
	process.Eventually(s, rig.Patience, "the server stops growing", s.watch.calm)
}

// head is the beginning of a request by hand.
func head(method, path, token string, more ...string) string {
	lines := append([]string{method + " " + path + " HTTP/1.1", "Host: drive"}, more...)
	if token != "" {
		lines = append(lines, "Authorization: Bearer "+token)
	}
	return strings.Join(lines, "\r\n")
}

// until polls the server until agrees returns nil.
func (s *stage) until(what string, agrees func() error) {
	s.Helper()
	process.Eventually(s, time.Duration(depth.Pick(5, 5, 20))*time.Minute, what, agrees)
}
