package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"

	"golang.org/x/time/rate"

	"example.org/smartdrive/internal/engine/sqldb"
)

// request sends one HTTP request and returns the status and body of the reply.
func request(ctx context.Context, method, url, body string, header http.Header) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	maps.Copy(req.Header, header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// decode decodes the first JSON value in raw and ignores the rest. Its error quotes raw.
func decode[T any](raw []byte) (v T, err error) {
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&v); err != nil {
		return v, fmt.Errorf("%w in %q", err, raw)
	}
	return v, nil
}

// countRows runs a query that returns one number. It fails if the query returns no row.
func (h *harness) countRows(ctx context.Context, query string) (n int64, err error) {
	err = h.query(ctx, func(db *sqldb.DB) error { return db.QueryRow(ctx, query).Scan(&n) })
	return n, err
}

// throttle is a TCP proxy in front of the server that limits the rate of bytes from clients.
type throttle struct {
	ctx      context.Context //nolint:containedctx // the story's context, for later connections
	listener net.Listener
	to       string
	limit    *rate.Limiter
}

// pieceSize is how many bytes the throttle forwards at a time.
const pieceSize = 64 << 10

// newThrottle starts a throttle to the address to. The caller closes it.
func newThrottle(ctx context.Context, to string, bytesPerSecond int64) (*throttle, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &throttle{ctx, listener, to, rate.NewLimiter(rate.Limit(bytesPerSecond), pieceSize)}
	go t.accept()
	return t, nil
}

// url returns the address of the throttle, to be used in place of the server's.
func (t *throttle) url() string { return "http://" + t.listener.Addr().String() }

// close stops accepting connections; open ones continue.
func (t *throttle) close() { _ = t.listener.Close() } // fails only if closed before

// closeConn closes a connection and ignores the error.
func closeConn(c net.Conn) { _ = c.Close() }

// accept relays each connection in a goroutine until the listener is closed.
func (t *throttle) accept() {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return
		}
		go t.relay(conn)
	}
}

// relay forwards one connection until either side closes it; the client's bytes are slowed to the
// limit.
func (t *throttle) relay(conn net.Conn) {
	defer closeConn(conn)
	up, err := (&net.Dialer{}).DialContext(t.ctx, "tcp", t.to)
	if err != nil {
		return
	}
	defer closeConn(up)
	go func() {
		_, _ = io.Copy(conn, up)
		closeConn(conn)
	}()
	piece := make([]byte, pieceSize)
	for {
		n, err := conn.Read(piece)
		if n > 0 {
			if t.limit.WaitN(t.ctx, n) != nil {
				return
			}
			if _, err := up.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
