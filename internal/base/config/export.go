package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// Addresses selects the network addresses that may be connected to.
type Addresses string

// The addresses.
const (
	AddressesPublic Addresses = "public"
	AddressesAny    Addresses = "any"
)

// hostName matches a host name as in a URL: labels of letters, digits and hyphens, optionally after
// "*.".
var hostName = regexp.MustCompile(`^(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// setExportHosts replaces c.ExportHosts by a list of host names, patterns like *.example.org and
// addresses, each with an optional port, in lower case. It fails at the first element of another
// form.
func setExportHosts(c *Config, v string) error {
	c.ExportHosts = nil
	for _, e := range elements(v) {
		host := strings.ToLower(e)
		if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
			port := host[i+1:]
			host = host[:i]
			if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
				return fmt.Errorf("%q: the port is a number from 1 to 65535", e)
			}
		}
		_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
		if err != nil && !hostName.MatchString(host) {
			return fmt.Errorf("%q is not a host as in docs.example.org, *.example.org or docs.example.org:8443", e)
		}
		c.ExportHosts = append(c.ExportHosts, strings.ToLower(e))
	}
	return nil
}

// maxDocument is the largest possible ExportMaxDocument: the largest content of one part.
const maxDocument = drive.GiB

// setExportMaxDocument parses a size from 1 byte to maxDocument, both included, into
// c.ExportMaxDocument. It fails for other values; c is not usable then.
func setExportMaxDocument(c *Config, v string) error {
	n, err := drive.ParseByteSize(v)
	if err == nil && (n < 1 || n > maxDocument) {
		err = fmt.Errorf("%s is out of range; use 1B to %s", v, maxDocument)
	}
	c.ExportMaxDocument = n
	return err
}
