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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/idem"
	"smartdrive/internal/head/problem"
	"smartdrive/internal/head/server"
	"smartdrive/internal/usecase/collect"
)

// call is one request on its way through a route. It has the request, as handlers have it
// everywhere in net/http; its context goes to the use cases by a parameter.
type call struct {
	*front
	w     http.ResponseWriter
	r     *http.Request
	route *route
	who   drive.Who
	query url.Values // checked
	key   idem.Key   // zero: none
	body  []byte     // the JSON as it came
	room  int64      // bytes that take has taken
	page  bool       // they are of a page: see takePage

	sender *collect.Sender // set: who came by a collect link
}

// reply is what a handler answers. The zero reply says that the handler has answered by itself.
type reply struct {
	status   int
	body     any      // sent as JSON; nil: no body
	raw      []byte   // JSON that was made before; instead of body
	models   [][]byte // deflated JSON that stands for each "model":null in body, in their order
	replayed bool
}

func ok(body any) (reply, error)      { return reply{status: http.StatusOK, body: body}, nil }
func created(body any) (reply, error) { return reply{status: http.StatusCreated, body: body}, nil }
func empty(err error) (reply, error)  { return reply{status: http.StatusNoContent}, err }

// answer is 200 with what a use case returned.
func answer[T any](body T, err error) (reply, error) {
	return reply{status: http.StatusOK, body: body}, err
}

// showing is answer with what show renders of it.
func showing[V, W any](c *call, show func(*call, V) W) func(V, error) (reply, error) {
	return func(v V, err error) (reply, error) {
		if err != nil {
			return reply{}, err
		}
		return ok(show(c, v))
	}
}

func (a *API) handler(rt *route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{front: &a.front, w: w, r: r, route: rt}
		if err := c.serve(); err != nil {
			problem.Write(w, r, err)
		}
	})
}

// serve runs the steps of the package comment.
func (c *call) serve() error {
	if err := notCode(c.r); err != nil {
		return err
	}
	release, err := c.enter(c.r.Context())
	if err != nil {
		return err
	}
	defer release()
	ctx := c.r.Context() // it says whose reads these are since then
	if err := c.parseQuery(); err != nil {
		return err
	}
	if err := c.parseKey(); err != nil {
		return err
	}
	defer c.leave()
	if slices.ContainsFunc(c.route.query, func(p param) bool { return p.name == limitParam.name }) {
		if err := c.takePage(ctx, int64(c.limit())); err != nil {
			return err
		}
	}
	rep, err := c.route.act.run(ctx, c)
	err = c.recordConflict(ctx, err)
	if err != nil && c.sender != nil {
		err = forSender(ctx, c.senders, *c.sender, err)
	}
	if err != nil || rep.status == 0 {
		return err
	}
	return c.send(ctx, rep)
}

// codeOf are the ways in which a browser would let what it gets act as a part of a page (Fetch
// standard §2.2.5).
var codeOf = []string{"script", "style", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet", "xslt", "manifest"}

// notCode refuses a request of a browser that would run the answer, or lay a page out by it: here
// are data, and contents that anybody may have stored. The pages' policy allows scripts of their
// own origin, which is that of the contents, too.
func notCode(r *http.Request) error {
	if dest := r.Header.Get("Sec-Fetch-Dest"); slices.Contains(codeOf, dest) {
		return drive.Bad("Sec-Fetch-Dest", drive.NotAllowed, "allowed", []string{"document", "empty", "image", "audio", "video"})
	}
	return nil
}

// enter finds out who calls and takes a place for the request: of the user, or of the address of
// somebody who has not logged in.
func (c *call) enter(ctx context.Context) (release func(), err error) {
	if c.route.need == open {
		return c.Visitors.Acquire(c.network())
	}
	if err := c.authenticate(ctx); err != nil {
		return nil, err
	}
	if c.r.Method == http.MethodPost || c.route.asks {
		if err := c.Clicks.Allow(c.actor(), c.click()); err != nil {
			return nil, err
		}
	}
	if c.route.stays {
		return func() {}, nil
	}
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		if err := c.Writes.Spend(c.actor()); err != nil {
			return nil, err
		}
	}
	return c.Gate.Acquire(c.actor())
}

// click names what a double click would do twice: a request to one address with one key. Two that
// restore different files, or make things under keys of their own, have nothing to do with each
// other. What may ask whether a content is known counts as one, whatever it names.
func (c *call) click() string {
	if c.route.asks {
		return c.route.path
	}
	sum := sha256.Sum256([]byte(c.r.Method + " " + c.r.URL.EscapedPath() + "\n" + c.r.Header.Get(keyHeader)))
	return string(sum[:])
}

// authenticate finds out who calls and whether the token may do it.
func (c *call) authenticate(ctx context.Context) error {
	if c.local != nil {
		c.who = *c.local
		return nil
	}
	if token := bearer(c.r); collect.IsToken(token) {
		return c.enterSender(ctx, token)
	}
	who, err := c.whoIs(c.r, c.route.need)
	if who.Renew && c.route.early {
		err = nil
	}
	c.who = who
	return err
}

// bearer returns the token of the Authorization header, empty when there is none. The scheme's name
// has no case (RFC 9110 §11.1).
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(token, " ")
}

// client is the address that the request comes from; the server has put it there, behind proxies
// too. Zero: a local socket.
func (c *call) client() netip.Addr { return clientOf(c.r) }

func clientOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// send writes a reply.
func (c *call) send(ctx context.Context, rep reply) error {
	raw, err := rep.encode()
	if err != nil {
		return err
	}
	at := c.location(rep.status, raw)
	if rep.models == nil && c.mayPack(len(raw)) {
		raw = c.packers.packed(raw, c.w.Header())
	}
	done, err := c.answering(ctx, rep.size(raw))
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

func (rep reply) encode() ([]byte, error) {
	if rep.raw != nil || rep.body == nil {
		return rep.raw, nil
	}
	return json.Marshal(rep.body)
}

// location is the address of what was made, or of the operation that goes on.
func (c *call) location(status int, raw []byte) string {
	above := c.route.above(status)
	if above == "" {
		return ""
	}
	var made struct {
		ID   string `json:"id"`
		Node struct {
			ID string `json:"id"`
		} `json:"node"` // of an upload that is done
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

// subPath is the path of the base URL.
func (c *call) subPath() string {
	if u, err := url.Parse(c.base); err == nil {
		return u.EscapedPath()
	}
	return ""
}

// baseURL is how the client reaches the server.
func (c *call) baseURL() string { return server.BaseURL(c.base, c.r) }

// network is the address of the client; of IPv6 the /64, which one client has to itself.
func (c *call) network() netip.Prefix {
	at := c.client()
	bits := at.BitLen()
	if at.Is6() {
		bits = 64
	}
	p, _ := at.Prefix(bits) // the zero address has the zero prefix
	return p
}

// reader is in whose name memory is taken for what is sent: the user, or the address where nobody
// has logged in.
func (c *call) reader() string {
	if c.who.User.IsZero() {
		return c.network().String()
	}
	return c.who.User.String()
}
