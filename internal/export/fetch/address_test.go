package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
)

// TestRefuserAnswersAsTheDialerDoes asks for hosts instead of connecting to them.
func TestRefuserAnswersAsTheDialerDoes(t *testing.T) {
	t.Parallel()
	refuses := Refuser(false)
	for host, want := range map[string]bool{"127.0.0.1": true, "::1": true, "10.1.2.3": true, "169.254.169.254": true, "8.8.8.8": false, "no-such-name.invalid": false} {
		if got := refuses(t.Context(), host); got != want {
			t.Errorf("%s: refused %t, want %t", host, got, want)
		}
	}
	if Refuser(true)(t.Context(), "127.0.0.1") {
		t.Error("any address is allowed, and one is refused")
	}
}

// An address of each special-purpose IANA network is refused; adjacent networks are allowed.
func TestSpecialPurposeAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"0.1.2.3", "10.1.1.1", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.0.0.8", "192.0.2.1", "192.31.196.1", "192.52.193.1",
		"192.88.99.2", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:10.0.0.1", "::ffff:203.0.113.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "100:0:0:1::1",
		"2001::1", "2001:1::1", "2001:2::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2620:4f:8000::1", "3fff::1", "5f00::1",
		"fc00::1", "fd12::1", "fec0::1", "::ffff:0:7f00:1", "fe80::1%1", "ff02::1", "4000::1",
	} {
		if !isPrivate(netip.MustParseAddr(at)) {
			t.Errorf("%s counts as public", at)
		}
	}
	for _, at := range []string{"1.1.1.1", "8.8.8.8", "::ffff:8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.1.1", "198.20.0.1", "203.0.114.1", "2001:200::1", "2606:4700::1", "2a00:1450::1"} {
		if isPrivate(netip.MustParseAddr(at)) {
			t.Errorf("%s counts as private", at)
		}
	}
}

// The machine's own public address is refused: services there trust local connections.
func TestOwnAddressesAreRefused(t *testing.T) {
	t.Parallel()
	own := []net.Addr{&net.IPNet{IP: net.ParseIP("5.6.7.8"), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP("2a01:4f8::2"), Mask: net.CIDRMask(64, 128)}}
	g := dialGuard{ownAddrs: func() ([]net.Addr, error) { return own, nil }}
	for at, refused := range map[string]bool{
		"5.6.7.8:80": true, "[::ffff:5.6.7.8]:80": true, "[2a01:4f8::2]:443": true, "5.6.7.9:80": false, "[2a01:4f8::3]:443": false,
	} {
		if err := g.control("tcp", at, nil); errors.Is(err, errPrivate) != refused || !refused && err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	own = append(own, &net.IPNet{IP: net.ParseIP("5.6.7.9"), Mask: net.CIDRMask(24, 32)})
	if err := g.control("tcp", "5.6.7.9:80", nil); !errors.Is(err, errPrivate) {
		t.Errorf("an address that came later: %v", err)
	}
	broken := dialGuard{ownAddrs: func() ([]net.Addr, error) { return nil, errors.New("no interfaces") }}
	if err := broken.control("tcp", "5.6.7.9:80", nil); err == nil {
		t.Error("nothing is known of the interfaces, and the connection is made")
	}
}

// A name that resolves to a public address first and to this machine at the connection (DNS
// rebinding) is refused: each address is checked when it is dialed, without another lookup.
func TestDNSRebindingIsRefused(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(inside.Close)
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	resolver := resolverOf(t, func() netip.Addr { // the public address is one of this machine
		if asked.Add(1)%2 == 1 {
			return netip.MustParseAddr("5.6.7.8")
		}
		return netip.MustParseAddr("127.0.0.1")
	})
	g := dialGuard{resolver: resolver, ownAddrs: func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("5.6.7.8"), Mask: net.CIDRMask(32, 32)}}, nil
	}}
	f := New(Options{Hosts: func() []string { return []string{"turning.test:" + port} }, Dial: g.dialer()})
	t.Cleanup(f.Close)
	for range 4 {
		_, err := read(t, f, "http://turning.test:"+port+"/x")
		wants(t, "a name that changes its answer", err, Final, Private)
	}
	if asked.Load() < 4 || reached.Load() != 0 {
		t.Errorf("asked %d times, reached %d times", asked.Load(), reached.Load())
	}
}

// resolverOf uses a DNS server that answers every name with an IPv4 address.
func resolverOf(t *testing.T, answer func() netip.Addr) *net.Resolver {
	t.Helper()
	pc, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for q := make([]byte, 1500); ; {
			n, from, err := pc.ReadFrom(q)
			if err != nil {
				return
			}
			if _, err := pc.WriteTo(reply(q[:n], answer), from); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = pc.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// reply answers a DNS query (RFC 1035 section 4) for type A with one address, and others with none.
func reply(q []byte, answer func() netip.Addr) []byte {
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	typ := int(q[end+1])<<8 | int(q[end+2])
	end += 5
	r := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	if typ == 1 {
		a := answer().As4()
		r[7] = 1
		r = append(r, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		r = append(r, a[:]...)
	}
	return r
}
