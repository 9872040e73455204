// Package server speaks HTTP for all heads: it listens, limits, logs and stops in order. A head is
// the implementation of one protocol, such as the native API or WebDAV. The heads register their
// patterns on one http.ServeMux and handle the requests.
//
// A request passes these steps, from the outside in; each step is one small file:
//
//	request id its name in the log and in problems
//	client     whose request it is, behind trusted proxies
//	body       a body that arrives too slowly is cut off (408), an unread body is drained, so that the client sees the answer
//	log        one line and the metrics
//	recover    a panic is a 500, is counted, and does not end the process
//	headers    security headers for browsers
//	stopping   503 once the server is being stopped
//	CORS       for the configured origins
//	path       split escaped; empty, ".", ".." and "%2F" segments are 400, never a redirect
//	ranges     Range and If-Range as RFC 9110 means them
//	routes     the mux, with its plain 404 and 405 rendered as problems
//
// Below all of them is the connection (answer.go), which is aborted if its peer does not read what
// is sent to it.
//
// There is no http.CrossOriginProtection here: browsers never add bearer tokens to another site's
// request, so it cannot be forged. The head rest accepts cookies and checks requests that carry
// one.
//
// Only HTTP/1.1 is supported. Over TLS, receiving one GiB by HTTP/2 took twice the processor time
// of HTTP/1.1 (1.07 against 0.52 s), and the clients open several connections anyway.
package server
