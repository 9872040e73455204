package columns

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"lukechampine.com/blake3"

	"example.org/smartdrive/test/history"
)

// actor plays one script on one column. Its state comes from replies only, so actors on two columns
// have equal states as long as the replies are equal.
type actor struct {
	*column
	names   names
	lot     *rand.Rand // which instance gets a request
	seed    uint64     // of the contents
	address string     // of the script's people: failed logins are counted by it
	wrong   int        // failed logins
	kept    []string   // uploads of unknown length: all their requests go to one instance; see meant
	people  []*person
	said    []string // what was asked and answered, by operation
	only    *site    // set: it gets all requests
	last    *site    // it got the request before
	broken  error    // an answer that no column may give, or none
}

// person is a user of the script and the user's expected state.
type person struct {
	name, id, token string
	password        string
	nodes           []*node
	uploads         []*sending
	versions        [][2]string // node, version
	links           []string
	keyed           []request   // with an Idempotency-Key
	tokens          [][2]string // id, secret
	logins          [][2]string
	ended           []string // secrets that are void
	after           string   // where the feed was left
}

type node struct {
	id, typ, path string
	rev           int64
	sum           string // BLAKE3 of a file
}

// sending is an upload.
type sending struct {
	id       string
	content  history.Content
	partSize int64
	unknown  bool // its size was not declared
	nonce    string
}

// request is one, before it has an address and a token.
type request struct {
	method, path string
	body         any // nil, []byte, an io.Reader of unknown length, a string as it is, or what becomes JSON
	header       []string
}

func newActor(c *column, seed uint64, salt string) *actor {
	a := &actor{column: c, lot: rand.New(rand.NewPCG(seed, 1)), seed: seed}
	a.address = fmt.Sprintf("10.%d.%d.%d", byte(seed>>16), byte(seed>>8), byte(seed))
	a.names = names{salt: salt, ids: map[string]int{}}
	for _, s := range c.sites {
		a.names.urls = append(a.names.urls, s.url)
	}
	return a
}

// reply is a response that was read completely.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r reply) json(into any) bool { return json.Unmarshal(r.body, into) == nil }

// do sends a request, logs request and reply, and learns the nodes in the reply.
func (a *actor) do(p *person, r request) reply {
	token := ""
	if p != nil {
		token = p.token
	}
	got := a.as(token, r)
	if p != nil && got.status < 300 && !bytes.Contains([]byte(r.path), []byte("/content")) {
		var v any
		if got.json(&v) {
			p.learn(v)
		}
	}
	return got
}

// as is do with another token; nothing is learnt.
func (a *actor) as(token string, r request) reply {
	got, text, err := a.send(token, r)
	if err != nil {
		a.fault(fmt.Errorf("%s %s: %w", r.method, r.path, err))
		text = "no answer"
	}
	a.note(fmt.Sprintf("%s -> %s", a.names.hide(r.String()), text))
	if got.status >= 500 && got.status != http.StatusInsufficientStorage {
		a.fault(fmt.Errorf("%s %s is answered with %d: %s", r.method, r.path, got.status, got.body))
	}
	return got
}

// secretly is do for a request with a secret, which it does not log.
func (a *actor) secretly(p *person, r request) reply {
	got, text, err := a.send(p.token, r)
	if err != nil {
		a.fault(err)
	}
	a.note(fmt.Sprintf("%s %s (secret) -> %s", r.method, a.names.hide(r.path), text))
	return got
}

func (a *actor) note(text string) {
	a.said[len(a.said)-1] += text + "\n"
}

// fault records an error that is a defect on any column.
func (a *actor) fault(err error) {
	if a.broken == nil {
		a.broken = fmt.Errorf("operation %d on %s: %w", len(a.said), a.name, err)
	}
}

func (a *actor) send(token string, r request) (reply, string, error) {
	body, media, err := r.open()
	if err != nil {
		return reply{}, "", err
	}
	at := a.siteFor(r)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a.last = at
	req, err := http.NewRequestWithContext(ctx, r.method, at.url+"/api/v1"+r.path, body)
	if err != nil {
		return reply{}, "", err
	}
	req.Header["User-Agent"] = []string{"columns"}
	req.Header.Set("X-Forwarded-For", a.address)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(r.header); i += 2 {
		req.Header.Set(r.header[i], r.header[i+1])
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return reply{}, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	untilNextMillisecond()
	return reply{resp.StatusCode, resp.Header, got}, a.names.answer(resp, got), err
}

// siteFor is the instance that gets a request.
func (a *actor) siteFor(r request) *site {
	drawn := &a.sites[a.lot.IntN(len(a.sites))]
	if a.only != nil {
		return a.only
	}
	if body, ok := r.body.(map[string]any); ok && r.path == "/uploads" && body["size"] == nil {
		return &a.sites[0]
	}
	if slices.ContainsFunc(a.kept, func(id string) bool { return strings.Contains(r.path, id) }) {
		return &a.sites[0]
	}
	return drawn
}

// untilNextMillisecond keeps the times of two changes apart: lists by time have one order then.
func untilNextMillisecond() {
	for start := time.Now().UnixMilli(); time.Now().UnixMilli() == start; {
		runtime.Gosched()
	}
}

func (r request) open() (io.Reader, string, error) {
	switch b := r.body.(type) {
	case nil:
		return nil, "", nil
	case []byte:
		return bytes.NewReader(b), "", nil
	case io.Reader:
		return b, "", nil
	case string:
		return strings.NewReader(b), "application/json", nil
	}
	raw, err := json.Marshal(r.body)
	return bytes.NewReader(raw), "application/json", err
}

func (r request) String() string {
	text := r.method + " " + r.path
	switch b := r.body.(type) {
	case nil:
	case []byte:
		text += fmt.Sprintf(" (%d bytes)", len(b))
	case io.Reader:
		text += " (a stream)"
	case string:
		text += " " + b[:min(len(b), 300)]
	default:
		raw, _ := json.Marshal(b) // open says what is wrong
		text += " " + string(raw)
	}
	for i := 0; i < len(r.header); i += 2 {
		text += fmt.Sprintf(" [%s: %s]", r.header[i], r.header[i+1])
	}
	return text
}

// learn records the nodes in a reply.
func (p *person) learn(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			p.learn(item)
		}
	case map[string]any:
		if typ, ok := v["type"].(string); ok && v["rev"] != nil {
			p.learnNode(v, typ)
		}
		for _, name := range []string{"items", "node"} {
			p.learn(v[name])
		}
	}
}

func (p *person) learnNode(v map[string]any, typ string) {
	id, _ := v["id"].(string)
	i := slices.IndexFunc(p.nodes, func(n *node) bool { return n.id == id })
	if i < 0 {
		i = len(p.nodes)
		p.nodes = append(p.nodes, &node{id: id, typ: typ})
	}
	n := p.nodes[i]
	n.path, _ = v["path"].(string)
	rev, _ := v["rev"].(float64)
	n.rev = int64(rev)
	if digests, ok := v["digests"].(map[string]any); ok {
		n.sum, _ = digests["blake3"].(string)
	}
}

// contents caches generated content by seed, because generating takes longer than sending.
var contents sync.Map

// bytesOf returns a content's bytes; they must not be changed.
func bytesOf(c history.Content) []byte {
	if b, ok := contents.Load(c); ok {
		return b.([]byte)
	}
	b := c.Bytes(0, c.Size)
	contents.Store(c, b)
	return b
}

func sumOf(b []byte) string {
	sum := blake3.Sum256(b)
	return hex.EncodeToString(sum[:])
}
