package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// tenYears is the longest duration of any setting; longer values indicate a wrong unit.
const tenYears = 10 * 365 * 24 * time.Hour

// text returns a setting.set function that stores a string in field and returns the error of check.
func text(field func(*Config) *string, check func(string) error) func(*Config, string) error {
	return func(c *Config, v string) error {
		*field(c) = v
		return check(v)
	}
}

// path returns an error if v begins with "~" or contains a NUL character. It does not look at the
// file system.
func path(v string) error {
	if strings.HasPrefix(v, "~") {
		return fmt.Errorf("%q: \"~\" is not expanded here; write the whole path", v)
	}
	if strings.ContainsRune(v, 0) {
		return errors.New("a path cannot hold a NUL character")
	}
	return nil
}

// hostPort returns an error if v is not HOST:PORT with a port number from 0 to 65535. HOST may be
// empty, for all interfaces; it is not resolved.
func hostPort(v string) error {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT, as 127.0.0.1:8320, :8320 or [::1]:8320", v)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is not a port; use a number from 0 to 65535", port)
	}
	if strings.ContainsAny(host, " \t/@?#") {
		return fmt.Errorf("%q is not a host name or address", host)
	}
	return nil
}

// span returns a setting.set function that parses a duration into field. It rejects one outside of
// least to most, both included.
func span(field func(*Config) *time.Duration, least, most time.Duration) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := parseDuration(v)
		if err != nil {
			return err
		}
		if d < least || d > most {
			return fmt.Errorf("%s is out of range; use %s to %s", v, short(least), short(most))
		}
		*field(c) = d
		return nil
	}
}

// spanOrNever is span, but also accepts 0.
func spanOrNever(field func(*Config) *time.Duration, least, most time.Duration) func(*Config, string) error {
	set := span(field, least, most)
	return func(c *Config, v string) error {
		if d, err := parseDuration(v); err == nil && d == 0 {
			*field(c) = 0
			return nil
		}
		return set(c, v)
	}
}

// parseDuration parses a duration: as time.ParseDuration does, or a whole number of days such as
// "30d". Negative and zero durations pass. It fails with a text that shows the form.
func parseDuration(v string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(v, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration; write it as 100ms, 30s, 15m, 168h or 30d", v)
	}
	return d, nil
}

// short formats a duration without zero minutes and seconds at the end: "15m" instead of "15m0s".
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// number returns a setting.set function that parses an integer into field. It rejects one outside
// of least to most, both included.
func number(field func(*Config) *int, least, most int) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, least, most)
		}
		*field(c) = n
		return nil
	}
}

// size returns a setting.set function that parses a size in bytes into field.
func size(field func(*Config) *drive.ByteSize) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := drive.ParseByteSize(v)
		if err != nil {
			return err
		}
		*field(c) = n
		return nil
	}
}

// setDefaultQuota parses a size into c.DefaultQuota; "unlimited" sets it to nil. On an error c is
// unchanged.
func setDefaultQuota(c *Config, v string) error {
	if v == "unlimited" {
		c.DefaultQuota = nil
		return nil
	}
	n, err := drive.ParseByteSize(v)
	if err != nil {
		return fmt.Errorf("%w, or unlimited", err)
	}
	c.DefaultQuota = &n
	return nil
}

// setPartSize parses a power of two from 1 MiB to 1 GiB into c.PartSize.
func setPartSize(c *Config, v string) error {
	n, err := drive.ParseByteSize(v)
	if err != nil {
		return err
	}
	if n < drive.MiB || n > drive.GiB || n&(n-1) != 0 {
		return fmt.Errorf("%s is not possible; use a power of two from 1MiB to 1GiB, as 8MiB", v)
	}
	c.PartSize = n
	return nil
}

// choice returns a setting.set function that stores one of the allowed values in field.
func choice[T ~string](field func(*Config) *T, allowed ...T) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !slices.Contains(allowed, T(v)) {
			return fmt.Errorf("%q is not one of %s", v, join(allowed))
		}
		*field(c) = T(v)
		return nil
	}
}

// onOff returns a setting.set function that stores "on" as true and "off" as false in field.
func onOff(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "on" && v != "off" {
			return fmt.Errorf("%q is neither on nor off", v)
		}
		*field(c) = v == "on"
		return nil
	}
}

// join joins words with commas.
func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// setLogLevel parses debug, info, warn or error, in lower case, into c.LogLevel. On an error c is
// unchanged.
func setLogLevel(c *Config, v string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[v]
	if !ok {
		return fmt.Errorf("%q is not one of debug, info, warn, error", v)
	}
	c.LogLevel = level
	return nil
}

// setBaseURL parses an http or https URL into c.BaseURL, without a trailing slash.
func setBaseURL(c *Config, v string) error {
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not a base URL; write it as https://example.org or https://example.org/drive", v)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	if u.RawPath != "" || strings.Contains(u.Path+"/", "//") || strings.Contains(u.Path+"/", "/./") || strings.Contains(u.Path+"/", "/../") {
		return fmt.Errorf("the path %q is not possible; use plain names between single slashes", u.EscapedPath())
	}
	// A proxy may or may not strip the sub-path, and the server must be able to distinguish the
	// two.
	if first, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/"); slices.Contains([]string{"api", "healthz", "readyz", "metrics", "problems"}, first) {
		return fmt.Errorf("the path %q begins like an address of the server itself; choose another name", u.Path)
	}
	c.BaseURL = u
	return nil
}

// setOTLP parses the URL of a trace collector into c.OTLP; the default path is /v1/traces.
func setOTLP(c *Config, v string) error {
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not the URL of a collector; write it as http://127.0.0.1:4318", v)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces" // OTLP 1.x §OTLP/HTTP Request
	}
	c.OTLP = u
	return nil
}

// setTrustedProxies replaces c.TrustedProxies by a list of addresses and ranges, separated by
// commas; an address becomes a range of one. It fails at the first element that is neither.
func setTrustedProxies(c *Config, v string) error {
	c.TrustedProxies = nil
	for _, s := range elements(v) {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			addr, err := netip.ParseAddr(s)
			if err != nil {
				return fmt.Errorf("%q is neither an address nor a range; write it as 127.0.0.1 or 10.0.0.0/8", s)
			}
			prefix = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		c.TrustedProxies = append(c.TrustedProxies, prefix.Masked())
	}
	return nil
}

// setCORSOrigins replaces c.CORSOrigins by a list of origins, separated by commas, in lower case;
// "*" stands for any. It fails at the first element that is not an http or https origin without a
// path.
func setCORSOrigins(c *Config, v string) error {
	c.CORSOrigins = nil
	for _, s := range elements(v) {
		u, err := url.Parse(s)
		if s != "*" && (err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || !strings.EqualFold(u.Scheme+"://"+u.Host, s)) {
			return fmt.Errorf("%q is not an origin; write it as https://app.example.org, without a path, or *", s)
		}
		c.CORSOrigins = append(c.CORSOrigins, strings.ToLower(s))
	}
	return nil
}

// elements splits a list at its commas and drops empty elements.
func elements(v string) []string {
	var list []string
	for e := range strings.SplitSeq(v, ",") {
		if e = strings.TrimSpace(e); e != "" {
			list = append(list, e)
		}
	}
	return list
}

// setCreationIntervals replaces c.CreationIntervals by a list of operations and intervals of 1s to
// 1h, such as "POST /exports=5s", separated by commas. It fails at the first element of another
// form.
func setCreationIntervals(c *Config, v string) error {
	c.CreationIntervals = map[string]time.Duration{}
	for _, e := range elements(v) {
		operation, text, _ := strings.Cut(e, "=")
		d, err := parseDuration(text)
		method, path, _ := strings.Cut(operation, " ")
		switch {
		case method == "" || !strings.HasPrefix(path, "/") || text == "":
			return fmt.Errorf("%q is no interval, as in \"POST /exports=5s\"", e)
		case err != nil:
			return err
		case d < time.Second || d > time.Hour:
			return fmt.Errorf("%s is out of range; use 1s to 1h", text)
		}
		c.CreationIntervals[operation] = d
	}
	return nil
}
