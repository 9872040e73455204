package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// own are networks that belong to nobody, to this machine or to its neighbours, beyond what netip
// knows by itself: RFC 6890 and the IANA special-purpose registries. Those that carry an IPv4
// address inside could lead back here.
var own = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("::ffff:0:0:0/96"), // RFC 7915: an IPv4 address, translated
}

// isPrivate reports whether an address is not one of the public network.
func isPrivate(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return true
	}
	for _, p := range own {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Dialer makes connections to addresses of the public network, or of any where private is true.
func Dialer(private bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTime}
	if !private {
		d.Control = control
	}
	return d.DialContext
}

const dialTime = 10 * time.Second // for a connection: far more than the way around the world takes

// control is asked by the dialer about each address, after the name was looked up and before the
// connection is made.
func control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %q: %w", address, err)
	}
	if isPrivate(at.Addr()) {
		return errPrivate
	}
	return nil
}

// allows reports whether a host is on the list. An entry is a name, "*." and a name for all below
// it, or either with a port; without one it is for the scheme's own port.
func allows(list []string, host, port, usual string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, entry := range list {
		name, wanted := split(entry)
		if wanted == "" {
			wanted = usual
		}
		if wanted != port {
			continue
		}
		if rest, wild := strings.CutPrefix(name, "*"); wild && strings.HasPrefix(rest, ".") {
			if len(host) > len(rest) && strings.HasSuffix(host, rest) {
				return true
			}
		} else if name == host {
			return true
		}
	}
	return false
}

// split cuts the port off an entry of the list; a literal IPv6 address stands in brackets.
func split(entry string) (name, port string) {
	entry = strings.ToLower(entry)
	if i := strings.LastIndexByte(entry, ':'); i >= 0 && !strings.HasSuffix(entry, "]") {
		entry, port = entry[:i], entry[i+1:]
	}
	return strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"), port
}
