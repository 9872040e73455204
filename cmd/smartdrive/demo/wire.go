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

	"smartdrive/internal/engine/sqldb"
)

// send makes one plain HTTP request and returns status and body.
func send(ctx context.Context, method, url, body string, header http.Header) (status int, answer string, err error) {
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

// decode reads the first JSON value of raw.
func decode[T any](raw []byte) (v T, err error) {
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&v); err != nil {
		return v, fmt.Errorf("%w in %q", err, raw)
	}
	return v, nil
}

// countRows runs a query that returns one number.
func (st *stage) countRows(ctx context.Context, query string) (n int64, err error) {
	err = st.query(ctx, func(db *sqldb.DB) error { return db.QueryRow(ctx, query).Scan(&n) })
	return n, err
}

// throttle is a TCP proxy in front of the server that limits what clients send to a rate.
type throttle struct {
	ctx      context.Context //nolint:containedctx // that of the story, for connections that come later
	listener net.Listener
	to       string
	limit    *rate.Limiter
}

// pieceSize is how many bytes the throttle passes on at once.
const pieceSize = 64 << 10

func newThrottle(ctx context.Context, to string, bytesPerSecond int64) (*throttle, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &throttle{ctx, listener, to, rate.NewLimiter(rate.Limit(bytesPerSecond), pieceSize)}
	go t.accept()
	return t, nil
}

func (t *throttle) url() string { return "http://" + t.listener.Addr().String() }
func (t *throttle) close()      { _ = t.listener.Close() } // fails only when it is closed

// closeConn closes a connection of which nothing more is wanted.
func closeConn(c net.Conn) { _ = c.Close() }

// accept serves connections until the listener is closed. A connection ends with its peers.
func (t *throttle) accept() {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return
		}
		go t.relay(conn)
	}
}

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
