package client

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ProxyError is a reply that did not come from SmartDrive: a proxy replied, or the address belongs
// to another server. Its message says what happened and what to change.
type ProxyError struct {
	Status     int
	URL        string // requested URL without query
	Server     string // the Server header, such as "nginx/1.26.0"
	Location   string // target of a redirect
	Sent       int64  // size of the request's body in bytes, -1 if unknown
	RetryAfter time.Duration
	excerpt    string
}

// newProxyError describes a reply that does not come from SmartDrive but from a server before it;
// body may be nil. The URL is kept without query and user, because they may hold secrets.
func newProxyError(resp *http.Response, body []byte) *ProxyError {
	e := &ProxyError{
		Status: resp.StatusCode, Server: resp.Header.Get("Server"), Location: resp.Header.Get("Location"),
		RetryAfter: retryAfter(resp.Header), Sent: -1, excerpt: excerpt(body),
	}
	if resp.Request != nil {
		u := *resp.Request.URL
		u.RawQuery, u.User = "", nil
		e.URL, e.Sent = u.String(), resp.Request.ContentLength
	}
	return e
}

func (e *ProxyError) Error() string {
	who := "something between this computer and the server"
	if e.Server != "" {
		who += " (" + e.Server + ")"
	}
	switch e.Status {
	case http.StatusRequestEntityTooLarge:
		return fmt.Sprintf("%s refused a body of %d bytes (413): raise its body size limit (nginx: client_max_body_size 0; "+
			"Cloudflare: 100 MB) or send smaller parts (--part-size 1MiB)", who, e.Sent)
	case http.StatusBadGateway:
		return who + " could not reach SmartDrive (502): is the server running, and does the proxy point to its address?"
	case http.StatusServiceUnavailable:
		return who + " says that the server is not available (503)"
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return fmt.Sprintf("%s ran out of time (%d): raise its time-outs (nginx: proxy_read_timeout, proxy_send_timeout, "+
			"client_body_timeout) and switch request buffering off (nginx: proxy_request_buffering off), or send smaller parts "+
			"(--part-size 1MiB)", who, e.Status)
	}
	if e.Location != "" {
		return fmt.Sprintf("the server address leads elsewhere (%d): use the one that %s points to", e.Status, e.Location)
	}
	text := fmt.Sprintf("%s answered %d to %s, which is not SmartDrive's way: is the server address right?", who, e.Status, e.URL)
	if e.excerpt != "" {
		text += " It said: " + e.excerpt
	}
	return text
}

// excerpt returns the beginning of a foreign reply for an error message, "" for HTML.
func excerpt(body []byte) string {
	const most = 120 // bytes: enough for a title
	if strings.Contains(strings.ToLower(string(body[:min(len(body), 512)])), "<html") {
		return ""
	}
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return text
}
