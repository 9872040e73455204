package rest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/head/problem"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/collect"
)

// call is one request to a route. It holds the request; the context is passed as a parameter.
type call struct {
	*front
	w        http.ResponseWriter
	r        *http.Request
	route    *route
	who      drive.Who
	query    url.Values // checked against the route's parameters
	key      idem.Key   // zero: no idempotency key
	body     []byte     // request body as sent, JSON
	acquired int64      // bytes acquired from the budget
	page     bool       // the bytes were acquired by acquirePage

	sender *collect.Sender // set if the caller is the sender of a collect link
}

// reply is the response of a handler, which call.serve sends. The zero reply says that the handler
// has responded already.
type reply struct {
	status int
	body   any      // sent as JSON; nil: no body
	raw    []byte   // encoded JSON, sent instead of body
	models [][]byte // deflated JSON; the n-th replaces the n-th "model":null in body
	// replayed tells that the response is the stored one of an earlier request with the same
	// idempotency key.
	replayed bool
}

// ok returns a 200 reply with body as JSON. The error is always nil.
func ok(body any) (reply, error) { return reply{status: http.StatusOK, body: body}, nil }

// created returns a 201 reply with body as JSON. The error is always nil.
func created(body any) (reply, error) { return reply{status: http.StatusCreated, body: body}, nil }

// empty returns a 204 reply, or err, in which case the reply is not used.
func empty(err error) (reply, error) { return reply{status: http.StatusNoContent}, err }

// answer returns a 200 reply with the result of a use case, or its err, in which case the reply is
// not used.
func answer[T any](body T, err error) (reply, error) {
	return reply{status: http.StatusOK, body: body}, err
}

// replyWith returns a function that replies 200 with show's rendering of a use case's result.
func replyWith[V, W any](c *call, show func(*call, V) W) func(V, error) (reply, error) {
	return func(v V, err error) (reply, error) {
		if err != nil {
			return reply{}, err
		}
		return ok(show(c, v))
	}
}

// handler returns the handler of a route. It sends the error of a call as a problem document.
func (a *API) handler(rt *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{front: &a.front, w: w, r: r, route: rt}
		if err := c.serve(); err != nil {
			problem.Write(w, r, err)
		}
	})
}

// serve runs the steps that the package comment lists, in their order, and sends the reply. It
// returns an error only if nothing has been sent; the caller must answer with it.
func (c *call) serve() error {
	if err := refuseExecutable(c.r); err != nil {
		return err
	}
	release, err := c.admit(c.r.Context())
	if err != nil {
		return err
	}
	defer release()
	ctx := c.r.Context() // admit has added the user, to whom reads are charged
	if err := c.parseQuery(); err != nil {
		return err
	}
	if err := c.parseKey(); err != nil {
		return err
	}
	defer c.releaseMemory()
	if slices.ContainsFunc(c.route.query, func(p param) bool { return p.name == limitParam.name }) {
		if err := c.acquirePage(ctx, int64(c.limit())); err != nil {
			return err
		}
	}
	rep, err := c.route.action.run(ctx, c)
	err = c.recordConflict(ctx, err)
	if err != nil && c.sender != nil {
		err = forSender(ctx, c.senders, *c.sender, err)
	}
	if err != nil || rep.status == 0 {
		return err
	}
	return c.send(ctx, rep)
}

// executableDests are the request destinations whose response a browser would execute or apply to a
// page (Fetch standard §2.2.5).
var executableDests = []string{"script", "style", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet", "xslt", "manifest"}

// refuseExecutable refuses a browser's request whose response would be run as script or applied as
// style. The API serves contents that users have stored, from the same origin as the pages, and the
// pages' policy allows scripts from their own origin.
func refuseExecutable(r *http.Request) error {
	if dest := r.Header.Get("Sec-Fetch-Dest"); slices.Contains(executableDests, dest) {
		return drive.BadField("Sec-Fetch-Dest", drive.NotAllowed, "allowed", []string{"document", "empty", "image", "audio", "video"})
	}
	return nil
}

// admit authenticates the caller, sets c.who and occupies a slot of the user for concurrent
// requests. On a route that is open to anonymous callers, it only occupies a slot of the address.
// It fails with drive.Unauthenticated, drive.Forbidden or drive.Rate. Without an error the caller
// must call release after the response.
func (c *call) admit(ctx context.Context) (release func(), err error) {
	if c.route.access == open {
		return c.Visitors.Acquire(c.network())
	}
	if err := c.authenticate(ctx); err != nil {
		return nil, err
	}
	if c.r.Method == http.MethodPost || c.route.probesContent {
		if err := c.DoubleClicks.Allow(c.limitKey(), c.clickKey()); err != nil {
			return nil, err
		}
	}
	if c.route.longLived {
		return func() {}, nil
	}
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		if err := c.Writes.Take(c.limitKey()); err != nil {
			return nil, err
		}
	}
	return c.Requests.Acquire(c.limitKey())
}

// clickKey returns the key by which a double click is recognized, that is, an equal request in
// quick succession: method, path and idempotency key. On routes that tell whether the server has
// some content, all requests have the same key, whatever they name.
func (c *call) clickKey() string {
	if c.route.probesContent {
		return c.route.path
	}
	sum := sha256.Sum256([]byte(c.r.Method + " " + c.r.URL.EscapedPath() + "\n" + c.r.Header.Get(keyHeader)))
	return string(sum[:])
}

// authenticate sets c.who and checks that the token has the scope of the route. It fails with
// drive.Unauthenticated or drive.Forbidden.
func (c *call) authenticate(ctx context.Context) error {
	if c.local != nil {
		c.who = *c.local
		return nil
	}
	if token := bearer(c.r); collect.IsToken(token) {
		return c.enterSender(ctx, token)
	}
	who, err := c.identify(c.r, c.route.access)
	if who.MustChangePassword && c.route.beforeNewPassword {
		err = nil
	}
	c.who = who
	return err
}

// bearer returns the token of the Authorization header, or "" without one. The scheme is
// case-insensitive (RFC 9110 §11.1).
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(token, " ")
}

// client returns the address of the client, also behind a trusted proxy, because the server has
// replaced RemoteAddr. It is the zero Addr on a local socket.
func (c *call) client() netip.Addr { return clientOf(c.r) }

// clientOf returns the address of the connection, as IPv4 where it is mapped and without a zone;
// the zero Addr if RemoteAddr is not an address.
func clientOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// send writes a reply, after it has acquired memory for the reply. It fails before anything is
// sent: if the body cannot be encoded or no memory is free. A disconnected client is no error.
func (c *call) send(ctx context.Context, rep reply) error {
	raw, err := rep.encode()
	if err != nil {
		return err
	}
	at := c.location(rep.status, raw)
	if rep.models == nil && c.mayCompress(len(raw)) {
		raw = c.compressors.compress(raw, c.w.Header())
	}
	done, err := c.startResponse(ctx, rep.size(raw))
	if err != nil {
		return err
	}
	defer done()
	h := c.w.Header()
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	if rep.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if at != "" {
		h.Set("Location", at)
	}
	if raw == nil {
		c.w.WriteHeader(rep.status)
		return nil
	}
	h.Set("Content-Type", "application/json")
	if rep.models != nil {
		return c.sendModels(rep, raw)
	}
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	c.w.WriteHeader(rep.status)
	_, _ = c.w.Write(raw) //nolint:gosec // JSON, and said to be; it fails only when the client is gone
	return nil
}

// encode returns the JSON of the reply; nil for no body. It fails if the body cannot be encoded.
func (rep reply) encode() ([]byte, error) {
	if rep.raw != nil || rep.body == nil {
		return rep.raw, nil
	}
	return json.Marshal(rep.body)
}

// location returns the value of the Location header for a created resource or a started operation,
// from raw, the JSON of the reply; "" if the reply needs none.
func (c *call) location(status int, raw []byte) string {
	above := c.route.above(status)
	if above == "" {
		return ""
	}
	var made struct {
		ID   string `json:"id"`
		Node struct {
			ID string `json:"id"`
		} `json:"node"` // of a completed upload
	}
	if json.Unmarshal(raw, &made) != nil || made.ID == "" {
		return ""
	}
	id := made.ID
	if above == nodesPath && made.Node.ID != "" {
		id = made.Node.ID
	}
	return c.subPath() + prefix + above + "/" + id
}

// subPath returns the escaped path of the configured base URL; "" if it has none.
func (c *call) subPath() string {
	if u, err := url.Parse(c.base); err == nil {
		return u.EscapedPath()
	}
	return ""
}

// baseURL returns the URL by which the client reaches the server.
func (c *call) baseURL() string { return server.BaseURL(c.base, c.r) }

// network returns the client's address as a prefix. For IPv6 it is the /64, which one client owns.
func (c *call) network() netip.Prefix {
	at := c.client()
	bits := at.BitLen()
	if at.Is6() {
		bits = 64
	}
	p, _ := at.Prefix(bits) // the zero address gives the zero prefix
	return p
}

// reader returns the key that response memory is charged to: the user's id, or the client's network
// without a login.
func (c *call) reader() string {
	if c.who.User.IsZero() {
		return c.network().String()
	}
	return c.who.User.String()
}
