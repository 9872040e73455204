package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// Keys of log attributes. Using the same key everywhere makes log lines searchable.
const (
	KeyRequest = "request" // id of an HTTP request
	KeyUpload  = "upload"
	KeyAccount = "account"
	KeyUser    = "user" // id, never the name
	KeyNode    = "node"
	KeyBlob    = "blob"
	KeyTimer   = "timer"
	KeyError   = "error"
)

// Format is the format of log lines.
type Format string

// The formats.
const (
	FormatText Format = "text" // key=value, for people
	FormatJSON Format = "json" // one JSON object per line, for programs
)

// NewLogger returns a logger that writes lines of at least level to w, with secrets redacted (see
// Redact). It fails for an unknown format.
func NewLogger(w io.Writer, level slog.Leveler, format Format) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: Redact}
	switch format {
	case FormatText:
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case FormatJSON:
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("log format %q: use text or json", format)
}

// redacted replaces secret values.
const redacted = "[redacted]"

// secretWords are words in attribute keys whose values are redacted.
var secretWords = []string{"password", "passwd", "token", "secret", "authorization", "cookie", "credential", "signature"}

// urlWithQuery matches URLs with a query, which may contain the signature of a link.
var urlWithQuery = regexp.MustCompile(`([^\s"'?]*/[^\s"'?]*)\?[^\s"']+`)

// Redact is a slog.HandlerOptions.ReplaceAttr. It replaces the value of an attribute if its key or
// a group around it contains a secret word, and removes the query of URLs from texts, messages and
// errors. It is a safety net: secrets must not be logged, and Redact does not look into other
// values.
func Redact(groups []string, a slog.Attr) slog.Attr {
	if isSecret(a.Key) {
		return slog.String(a.Key, redacted)
	}
	if slices.ContainsFunc(groups, isSecret) {
		return slog.String(a.Key, redacted)
	}
	if s, ok := textOf(a.Value); ok && strings.Contains(s, "?") {
		return slog.String(a.Key, urlWithQuery.ReplaceAllString(s, "$1?"+redacted))
	}
	return a
}

// isSecret reports whether the key of a log attribute contains one of secretWords, ignoring case;
// its value must not be logged.
func isSecret(key string) bool {
	key = strings.ToLower(key)
	for _, word := range secretWords {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// textOf returns the printed form of strings, errors and Stringers; false for other values.
func textOf(v slog.Value) (string, bool) {
	if v.Kind() == slog.KindString {
		return v.String(), true
	}
	if v.Kind() != slog.KindAny {
		return "", false
	}
	switch x := v.Any().(type) {
	case error:
		return x.Error(), true
	case fmt.Stringer:
		return x.String(), true
	}
	return "", false
}
