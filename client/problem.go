package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is an error that SmartDrive reported (RFC 9457). Get it from an error with errors.As.
type Problem struct { //nolint:errname // RFC 9457 calls it so
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"` // for people, in the language that was asked for
	Code      Code   `json:"code"`
	RequestID string `json:"request_id"`

	// Args are all other members of the document, such as "limit", "sent", "missing", "state".
	Args map[string]json.RawMessage `json:"-"`
	// RetryAfter is how long the server asked to wait, 0 when it did not.
	RetryAfter time.Duration `json:"-"`
}

// Code names the kind of a Problem.
type Code string

// The codes of the API.
const (
	CodeBadRequest      Code = "bad-request"
	CodeBadName         Code = "bad-name"
	CodePartSize        Code = "part-size"
	CodePartRange       Code = "part-range"
	CodeCursorInvalid   Code = "cursor-invalid"
	CodeUnauthenticated Code = "unauthenticated"
	CodeForbidden       Code = "forbidden"
	CodeWrongCode       Code = "wrong-code"
	CodeCrossOrigin     Code = "cross-origin"
	CodeNotFound        Code = "not-found"
	CodeNoThumbnail     Code = "no-thumbnail"
	CodeMethod          Code = "method"
	CodeTooSlow         Code = "too-slow"
	CodeNameTaken       Code = "name-taken"
	CodeParentGone      Code = "parent-gone"
	CodePartDiffers     Code = "part-differs"
	CodeOffsetMismatch  Code = "offset-mismatch"
	CodePartsMissing    Code = "parts-missing"
	CodeState           Code = "state"
	CodeVersionChanged  Code = "version-changed"
	CodeLocked          Code = "locked"
	CodeInProgress      Code = "in-progress"
	CodeCycle           Code = "cycle"
	CodeGone            Code = "gone"
	CodeLengthRequired  Code = "length-required"
	CodePrecondition    Code = "precondition"
	CodeTooLarge        Code = "too-large"
	CodeMediaType       Code = "media-type"
	CodeRange           Code = "range"
	CodeDigestMismatch  Code = "digest-mismatch"
	CodeKeyReused       Code = "key-reused"
	CodeDigestRequired  Code = "digest-required"
	CodeRate            Code = "rate"
	CodeTooManyOpen     Code = "too-many-open"
	CodeInternal        Code = "internal"
	CodeStopping        Code = "stopping"
	CodeUnavailable     Code = "unavailable"
	CodeQuota           Code = "quota"
	CodeDiskFull        Code = "disk-full"
)

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if text == "" {
		return string(p.Code)
	}
	return fmt.Sprintf("%s (%s)", strings.TrimRight(text, "."), p.Code)
}

// Arg decodes the member called name into v and reports whether it was there and fitted.
func (p *Problem) Arg(name string, v any) bool {
	raw, ok := p.Args[name]
	return ok && json.Unmarshal(raw, v) == nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Problem) UnmarshalJSON(b []byte) error {
	type plain Problem
	if err := json.Unmarshal(b, (*plain)(p)); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &p.Args); err != nil {
		return err
	}
	for _, known := range []string{"type", "title", "status", "detail", "code", "request_id"} {
		delete(p.Args, known)
	}
	return nil
}

// CodeOf returns the code of the Problem in err's chain, empty when there is none.
func CodeOf(err error) Code {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Code
	}
	return ""
}

// IsCode reports whether err is a Problem with one of codes.
func IsCode(err error, codes ...Code) bool {
	got := CodeOf(err)
	for _, c := range codes {
		if got != "" && got == c {
			return true
		}
	}
	return false
}

// maxProblem bounds what is read of an error's body, in bytes.
const maxProblem = 64 << 10

// readError turns a reply that is not a success into a Problem or a ProxyError, and closes its
// body.
func readError(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // a cut body is judged by what came
	_ = resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "application/problem+json" {
		var p Problem
		if json.Unmarshal(body, &p) == nil && p.Code != "" {
			p.Status = resp.StatusCode
			p.RetryAfter = retryAfter(resp.Header)
			return &p
		}
	}
	return newProxyError(resp, bytes.TrimSpace(body))
}

// retryAfter reads Retry-After in its two forms (RFC 9110 §10.2.3).
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if s, err := strconv.Atoi(v); err == nil && s >= 0 {
		return time.Duration(min(s, 24*3600)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}
