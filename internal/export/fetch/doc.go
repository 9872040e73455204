// Package fetch downloads documents over HTTP from addresses that users name.
//
// A user can make this server connect to an address (SSRF), so it connects only where the
// administrator allows:
//
//	host      must be on the list, by name and port; without a list nothing is fetched
//	redirect  at most five, each to a host on the list
//	address   resolved addresses must not belong to this network; checked when the connection is made, so that DNS rebinding is useless
//	proxy     none: HTTP_PROXY is ignored
//	size      a larger declared length is refused before reading; received bytes are counted
//	time      limits for the whole document, and between two reads
//
// Each failure has a class that tells whether a retry helps: here, on another machine, or never.
package fetch
