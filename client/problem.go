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

	"example.org/smartdrive/api"
)

// Problem is an error reported by SmartDrive (RFC 9457). Use errors.As to get it.
type Problem struct { //nolint:errname // RFC 9457 calls it so
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"` // for people, in the language of the request
	Code      Code   `json:"code"`
	RequestID string `json:"request_id"`

	// Args are the problem's other members, such as "limit", "sent", "missing" or "state".
	Args map[string]json.RawMessage `json:"-"`
	// RetryAfter is the delay the server asked for; 0: none.
	RetryAfter time.Duration `json:"-"`
}

// The codes of the API, see package api.
const (
	CodeBadRequest      = api.CodeBadRequest
	CodeBadName         = api.CodeBadName
	CodePartSize        = api.CodePartSize
	CodePartRange       = api.CodePartRange
	CodeCursorInvalid   = api.CodeCursorInvalid
	CodeUnauthenticated = api.CodeUnauthenticated
	CodeForbidden       = api.CodeForbidden
	CodeWrongCode       = api.CodeWrongCode
	CodeCrossOrigin     = api.CodeCrossOrigin
	CodeNotFound        = api.CodeNotFound
	CodeNoThumbnail     = api.CodeNoThumbnail
	CodeMethod          = api.CodeMethod
	CodeTooSlow         = api.CodeTooSlow
	CodeNameTaken       = api.CodeNameTaken
	CodeParentGone      = api.CodeParentGone
	CodePartDiffers     = api.CodePartDiffers
	CodeOffsetMismatch  = api.CodeOffsetMismatch
	CodePartsMissing    = api.CodePartsMissing
	CodeState           = api.CodeState
	CodeVersionChanged  = api.CodeVersionChanged
	CodeLocked          = api.CodeLocked
	CodeInProgress      = api.CodeInProgress
	CodeCycle           = api.CodeCycle
	CodeGone            = api.CodeGone
	CodeLengthRequired  = api.CodeLengthRequired
	CodePrecondition    = api.CodePrecondition
	CodeTooLarge        = api.CodeTooLarge
	CodeMediaType       = api.CodeMediaType
	CodeRange           = api.CodeRange
	CodeDigestMismatch  = api.CodeDigestMismatch
	CodeKeyReused       = api.CodeKeyReused
	CodeDigestRequired  = api.CodeDigestRequired
	CodeRate            = api.CodeRate
	CodeTooManyOpen     = api.CodeTooManyOpen
	CodeInternal        = api.CodeInternal
	CodeStopping        = api.CodeStopping
	CodeUnavailable     = api.CodeUnavailable
	CodeQuota           = api.CodeQuota
	CodeDiskFull        = api.CodeDiskFull
)

// Error returns the detail, else the title, followed by the code.
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

// Arg decodes the member name into v. It reports false if the member is missing or does not fit v.
func (p *Problem) Arg(name string, v any) bool {
	raw, ok := p.Args[name]
	return ok && json.Unmarshal(raw, v) == nil
}

// UnmarshalJSON decodes a problem document. Members beyond the standard ones become Args. It fails
// if b is no JSON object.
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

// CodeOf returns the code of the Problem in err's chain, "" if there is none.
func CodeOf(err error) Code {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Code
	}
	return ""
}

// IsCode reports whether err is or wraps a Problem with one of the codes. It is false for nil and
// for errors that did not come from the server.
func IsCode(err error, codes ...Code) bool {
	got := CodeOf(err)
	for _, c := range codes {
		if got != "" && got == c {
			return true
		}
	}
	return false
}

// maxProblem bounds how much of an error reply's body is read, in bytes.
const maxProblem = 64 << 10

// readError converts a reply without success status into a *Problem, or a *ProxyError if the reply
// is not SmartDrive's. It closes the body.
func readError(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // a truncated body is parsed as far as it arrived
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

// retryAfter parses the Retry-After header, in seconds or as a date (RFC 9110 §10.2.3). It returns
// 0 if there is none; seconds are capped at a day.
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
