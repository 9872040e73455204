package rig

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"example.org/smartdrive/test/process"
)

// Link is a proxy before a component that simulates network faults. Faults accumulate until Heal.
type Link struct {
	proxy *toxiproxy.Proxy
	addr  string
	cut   bool
}

// newLink reserves an address. Nothing listens there before open.
func newLink(t testing.TB) *Link {
	t.Helper()
	return &Link{addr: process.Address(t)}
}

// open starts to forward connections to an address.
func (l *Link) open(t testing.TB, to string) {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l.proxy = toxiproxy.NewProxy(server, to, l.addr, to)
	if err := l.proxy.Start(); err != nil {
		t.Fatalf("start the proxy before %s: %v", to, err)
	}
	t.Cleanup(l.proxy.Stop)
}

// Addr returns the address that instances connect to.
func (l *Link) Addr() string { return l.addr }

// Cut closes all connections and refuses new ones.
func (l *Link) Cut(testing.TB) {
	l.proxy.Stop()
	l.cut = true
}

// Delay adds a latency in both directions.
func (l *Link) Delay(t testing.TB, d time.Duration) {
	t.Helper()
	l.fault(t, "latency", "upstream", map[string]int64{"latency": d.Milliseconds()})
	l.fault(t, "latency", "downstream", map[string]int64{"latency": d.Milliseconds()})
}

// Reset resets every connection, old or new, at its next request.
func (l *Link) Reset(t testing.TB) {
	t.Helper()
	l.fault(t, "reset_peer", "upstream", map[string]int64{"timeout": 0})
}

// Silence simulates half-open connections: no data arrives in either direction, without an error.
// New connections are accepted and are silent as well.
func (l *Link) Silence(t testing.TB) {
	t.Helper()
	l.fault(t, "timeout", "upstream", map[string]int64{"timeout": 0})
	l.LoseReplies(t)
}

// LoseReplies delivers requests and drops all responses.
func (l *Link) LoseReplies(t testing.TB) {
	t.Helper()
	l.fault(t, "timeout", "downstream", map[string]int64{"timeout": 0})
}

// Heal ends all faults. It closes connections that were silent; slow ones continue.
func (l *Link) Heal(t testing.TB) {
	t.Helper()
	l.proxy.Toxics.ResetToxics(t.Context())
	if !l.cut {
		return
	}
	if err := l.proxy.Start(); err != nil {
		t.Fatalf("heal the network: %v", err)
	}
	l.cut = false
}

// fault adds a toxiproxy fault to one direction, "upstream" or "downstream".
func (l *Link) fault(t testing.TB, kind, stream string, attributes map[string]int64) {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"name": kind + "_" + stream, "type": kind, "stream": stream, "attributes": attributes,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.proxy.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
		t.Fatalf("break the network with %s: %v", kind, err)
	}
}
