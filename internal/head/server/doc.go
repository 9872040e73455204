// Package server speaks HTTP for all heads: it listens, limits, logs and stops in order. What an
// address means is the business of the heads, which register their patterns on one http.ServeMux.
//
// A request goes through, from the outside in; each step is one small file:
//
//	request id its name in the log and in problems
//	client     whose request it is, behind trusted proxies
//	body       what is sent too slowly is cut off (408), what was not read is taken in, so that the client sees the answer
//	log        one line and the metrics
//	recover    a panic is a 500, is counted, and does not end the process
//	headers    what keeps browsers from doing foolish things
//	stopping   503 once the server is being stopped
//	CORS       for the configured origins
//	path       split escaped; empty, ".", ".." and "%2F" segments are 400, never a redirect
//	ranges     Range and If-Range as RFC 9110 means them
//	routes     the mux, with its plain 404 and 405 said as problems
//
// Below all of them is the connection (answer.go), which is broken off when its peer does not read
// what is sent to it.
//
// There is no http.CrossOriginProtection here: bearer tokens a browser never adds by itself to
// another site's request, so there is nothing for a forged request to ride on. The head that takes
// cookies, rest, has it for requests that come with one.
//
// Only HTTP/1.1 is spoken. Over TLS, receiving one GiB by HTTP/2 took twice the processor time of
// HTTP/1.1 (1.07 against 0.52 s), and the clients open several connections anyway.
package server
