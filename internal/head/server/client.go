package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// findClient sets r.RemoteAddr (with port 0 behind a proxy), r.URL.Scheme and r.Host to those of
// the client. X-Forwarded-For, -Proto and -Host count only if the peer of the connection is a
// trusted proxy, because any client can send them.
func findClient(trusted []netip.Prefix, r *http.Request) {
	r.URL.Scheme = "http"
	if r.TLS != nil {
		r.URL.Scheme = "https"
	}
	if !containsAddr(trusted, addrOf(r.RemoteAddr)) {
		return
	}
	f := readForwarded(r.Header, trusted)
	if f.client.IsValid() {
		r.RemoteAddr = netip.AddrPortFrom(f.client, 0).String()
	}
	if f.scheme != "" {
		r.URL.Scheme = f.scheme
	}
	if f.host != "" {
		r.Host = f.host
	}
}

// forwarded holds what proxies report about a request; missing or invalid values are zero.
type forwarded struct {
	client netip.Addr
	scheme string
	host   string
}

// readForwarded evaluates the X-Forwarded headers from the right. Each proxy appends the address
// that it saw, so the rightmost address that is not a trusted proxy is the client. Values left of
// it come from the client and may be forged.
func readForwarded(h http.Header, trusted []netip.Prefix) forwarded {
	var f forwarded
	hops := listOf(h, "X-Forwarded-For")
	at := len(hops) // index of f.client's hop
	for i, hop := range slices.Backward(hops) {
		addr := addrOf(hop)
		if !addr.IsValid() {
			break
		}
		f.client, at = addr, i
		if !containsAddr(trusted, addr) {
			break
		}
	}
	if s := strings.ToLower(hopValue(listOf(h, "X-Forwarded-Proto"), at, len(hops))); s == "http" || s == "https" {
		f.scheme = s
	}
	if s := hopValue(listOf(h, "X-Forwarded-Host"), at, len(hops)); validHost(s) {
		f.host = s
	}
	return f
}

// hopValue returns the value, of a header's values, that describes the client's connection. at is
// the index of the client among hops addresses of X-Forwarded-For. Appending proxies write one
// value per address. If the counts differ, it returns the rightmost value, which surely comes from
// a trusted proxy; "" without values.
func hopValue(values []string, at, hops int) string {
	switch {
	case len(values) == 0:
		return ""
	case len(values) == hops && at < hops:
		return values[at]
	}
	return values[len(values)-1]
}

// listOf returns the elements of a comma-separated header, over all its lines.
func listOf(h http.Header, name string) []string {
	var list []string
	for _, line := range h.Values(name) {
		for element := range strings.SplitSeq(line, ",") {
			list = append(list, strings.TrimSpace(element))
		}
	}
	return list
}

// addrOf parses "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]" and "[2001:db8::1]:80".
// It returns the zero Addr for anything else.
func addrOf(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		s, _ = strings.CutSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

// containsAddr reports whether a prefix contains addr.
func containsAddr(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// validHost reports whether s is a host name or address with an optional port, and has nothing that
// could change the meaning of a URL.
func validHost(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_', c == ':', c == '[', c == ']':
		default:
			return false
		}
	}
	return true
}
