package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// special are the special-purpose networks of the IANA registries (RFC 6890 and its updates, as of
// 2025) that netip does not know by itself. Those of which a registry says that they can be reached
// are among them, too: nobody keeps documents there, and those that carry an IPv4 address inside
// could lead back here. Of IPv6 only what IANA has given out as global unicast is public at all.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),         // this network, RFC 791
	netip.MustParsePrefix("100.64.0.0/10"),     // shared address space, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),      // IETF protocol assignments, RFC 6890
	netip.MustParsePrefix("192.0.2.0/24"),      // documentation, RFC 5737
	netip.MustParsePrefix("192.31.196.0/24"),   // AS112, RFC 7535
	netip.MustParsePrefix("192.52.193.0/24"),   // AMT, RFC 7450
	netip.MustParsePrefix("192.88.99.0/24"),    // 6to4 relay anycast, RFC 7526
	netip.MustParsePrefix("192.175.48.0/24"),   // AS112, RFC 7534
	netip.MustParsePrefix("198.18.0.0/15"),     // benchmarking, RFC 2544
	netip.MustParsePrefix("198.51.100.0/24"),   // documentation, RFC 5737
	netip.MustParsePrefix("203.0.113.0/24"),    // documentation, RFC 5737
	netip.MustParsePrefix("240.0.0.0/4"),       // reserved, RFC 1112
	netip.MustParsePrefix("2001::/23"),         // IETF protocol assignments, with Teredo, RFC 2928
	netip.MustParsePrefix("2001:db8::/32"),     // documentation, RFC 3849
	netip.MustParsePrefix("2002::/16"),         // 6to4, RFC 3056
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112, RFC 7534
	netip.MustParsePrefix("3fff::/20"),         // documentation, RFC 9637
}

// global is what IANA has given out of IPv6 as global unicast (RFC 4291). Translated, discarded,
// unique local and site-local addresses are outside of it.
var global = netip.MustParsePrefix("2000::/3")

// isPrivate reports whether an address is not one of the public network.
func isPrivate(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !global.Contains(a) {
		return true
	}
	return slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Dialer makes connections to addresses of the public network that are not this machine's own, or
// to any address where private is true.
func Dialer(private bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	if private {
		return (&net.Dialer{Timeout: dialTime}).DialContext
	}
	return guard{own: net.InterfaceAddrs}.dialer()
}

const dialTime = 10 * time.Second // for a connection: far more than the way around the world takes

// guard refuses addresses that are not public, and those of this machine.
type guard struct {
	resolver *net.Resolver // default: the system's
	own      func() ([]net.Addr, error)
}

func (g guard) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTime, Control: g.control, Resolver: g.resolver}).DialContext
}

// control is asked by the dialer about each address, after the name was looked up and before the
// connection is made: a name that resolves to something else a moment later leads nowhere else.
func (g guard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %q: %w", address, err)
	}
	if isPrivate(at.Addr()) {
		return errPrivate
	}
	return g.checkOwn(at.Addr().Unmap())
}

// checkOwn refuses the addresses of this machine's interfaces, which may be public ones. They are
// read for each connection, because they change.
func (g guard) checkOwn(a netip.Addr) error {
	all, err := g.own()
	if err != nil {
		return fmt.Errorf("list the addresses of this machine: %w", err)
	}
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Unmap().WithZone("") == a.WithZone("") {
			return errPrivate
		}
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
