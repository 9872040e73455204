package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// specialNetworks lists the special-purpose networks of the IANA registries (RFC 6890 and updates,
// as of
// 2025) that netip does not classify. It includes the globally reachable ones, because they hold no
// documents, and those with an embedded IPv4 address could lead back to this network.
var specialNetworks = []netip.Prefix{
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

// globalUnicast is the IPv6 range that IANA assigns as global unicast (RFC 4291). Translated,
// discard-only, unique local and site-local addresses are outside of it.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// isPrivate reports whether a is not a public address: private, local, multicast, unspecified,
// invalid or in one of specialNetworks. An IPv4 address mapped to IPv6 counts as IPv4.
func isPrivate(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !globalUnicast.Contains(a) {
		return true
	}
	return slices.ContainsFunc(specialNetworks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Dialer returns a dial function that connects only to public addresses that are not addresses of
// this machine. If private is true, the function connects to any address.
func Dialer(private bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	if private {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return dialGuard{ownAddrs: net.InterfaceAddrs}.dialer()
}

// Refuser returns a function that reports whether Dialer with the same argument refuses to connect
// to a host. A name that cannot be resolved is not refused. Each call resolves the name.
func Refuser(private bool) func(ctx context.Context, host string) bool {
	if private {
		return func(context.Context, string) bool { return false }
	}
	return dialGuard{ownAddrs: net.InterfaceAddrs}.refuses
}

// refuses reports whether control refuses all addresses of a host.
func (g dialGuard) refuses(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	all, err := g.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(all) == 0 {
		return false
	}
	for _, a := range all {
		if !errors.Is(g.control("", netip.AddrPortFrom(a, 0).String(), nil), errPrivate) {
			return false
		}
	}
	return true
}

const lookupTimeout = 2 * time.Second // timeout of resolving a name outside of a connection attempt

const dialTimeout = 10 * time.Second // timeout of a connection attempt

// dialGuard refuses connections to non-public addresses and to addresses of this machine.
type dialGuard struct {
	resolver *net.Resolver              // nil: the system resolver
	ownAddrs func() ([]net.Addr, error) // returns the addresses of this machine
}

// dialer returns a dial function that checks each resolved address with control.
func (g dialGuard) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout, Control: g.control, Resolver: g.resolver}).DialContext
}

// control is the net.Dialer.Control hook. It runs for each resolved address before the connection
// is made, so DNS rebinding cannot bypass the check. It returns errPrivate for a refused address.
func (g dialGuard) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %q: %w", address, err)
	}
	if isPrivate(at.Addr()) {
		return errPrivate
	}
	return g.checkOwn(at.Addr().Unmap())
}

// checkOwn returns errPrivate for an address of this machine's interfaces, which may be public. The
// addresses are read for each connection, because they change.
func (g dialGuard) checkOwn(a netip.Addr) error {
	all, err := g.ownAddrs()
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

// hostAllowed reports whether list allows a host and port. An entry is a host name, or "*." and a
// domain for all its subdomains, optionally with a port. An entry without a port means usual, the
// default port of the scheme.
func hostAllowed(list []string, host, port, usual string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, entry := range list {
		name, wanted := splitPort(entry)
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

// splitPort splits an entry of the list into host and port. IPv6 addresses are in brackets.
func splitPort(entry string) (name, port string) {
	entry = strings.ToLower(entry)
	if i := strings.LastIndexByte(entry, ':'); i >= 0 && !strings.HasSuffix(entry, "]") {
		entry, port = entry[:i], entry[i+1:]
	}
	return strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"), port
}
