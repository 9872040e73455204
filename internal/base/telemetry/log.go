package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// Keys of log attributes, so that one word finds everything about one thing.
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

// Format is how log lines look.
type Format string

// The formats.
const (
	FormatText Format = "text" // key=value, for people
	FormatJSON Format = "json" // one object a line, for programs
)

// NewLogger returns a logger that writes to w what is at least as grave as level, without secrets
// (see Redact).
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

const redacted = "[redacted]"

// secretWords mark the attributes whose values are never written, wherever they stand in the key.
var secretWords = []string{"password", "passwd", "token", "secret", "authorization", "cookie", "credential", "signature"}

// withQuery finds addresses with a query, in which signed links carry their signature.
var withQuery = regexp.MustCompile(`([^\s"'?]*/[^\s"'?]*)\?[^\s"']+`)

// Redact is a slog.HandlerOptions.ReplaceAttr: the value of an attribute with a secret word in its
// key or in the name of a group around it is replaced, and from every text, message and error the
// query of any address is cut. It is a net below the rule that secrets are not logged, not a
// licence to log them: it does not look inside other values.
func Redact(groups []string, a slog.Attr) slog.Attr {
	if secret(a.Key) {
		return slog.String(a.Key, redacted)
	}
	if slices.ContainsFunc(groups, secret) {
		return slog.String(a.Key, redacted)
	}
	if s, ok := textOf(a.Value); ok && strings.Contains(s, "?") {
		return slog.String(a.Key, withQuery.ReplaceAllString(s, "$1?"+redacted))
	}
	return a
}

func secret(key string) bool {
	key = strings.ToLower(key)
	for _, word := range secretWords {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// textOf returns what the handlers would print for values that print as text.
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
