package smoke

import (
	"io"
	"net"
	"sync"
	"testing"
)

// wire forwards connections to a server and stops after a given number of bytes. Later requests
// wait, so the test can act in the middle of a transfer.
type wire struct {
	listener net.Listener

	mu     sync.Mutex
	turned *sync.Cond // on every change of what follows
	to     string     // the server's address
	left   int64      // bytes that may still pass on to the server
	conns  map[net.Conn]bool
}

// newWire lets everything pass to the server at the address.
func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to, left: 1 << 60, conns: map[net.Conn]bool{}}
	w.turned = sync.NewCond(&w.mu)
	var running sync.WaitGroup
	running.Go(func() { w.accept(&running) })
	t.Cleanup(func() {
		l.Close()
		w.cut()
		w.allow(1 << 60)
		running.Wait()
	})
	return w
}

func (w *wire) url() string { return "http://" + w.listener.Addr().String() }

// allow lets so many more bytes pass, and no more.
func (w *wire) allow(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = bytes
	w.turned.Broadcast()
}

// cut ends all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
		delete(w.conns, c)
	}
}

func (w *wire) accept(running *sync.WaitGroup) {
	for {
		in, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		to := w.to
		w.mu.Unlock()
		out, err := net.Dial("tcp", to)
		if err != nil { // the server is down: the client sees a connection that ends
			in.Close()
			continue
		}
		w.mu.Lock()
		w.conns[in], w.conns[out] = true, true
		w.mu.Unlock()
		end := func() { in.Close(); out.Close() }
		running.Go(func() { defer end(); w.pass(out, in) })
		running.Go(func() { defer end(); _, _ = io.Copy(in, out) })
	}
}

// pass copies to the server what may pass.
func (w *wire) pass(out, in net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		w.mu.Lock()
		for w.left <= 0 {
			w.turned.Wait()
		}
		w.left -= int64(n)
		w.mu.Unlock()
		if _, writeErr := out.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
	}
}
