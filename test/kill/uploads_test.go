package kill

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"lukechampine.com/blake3"

	"example.org/smartdrive/test/history"
)

// upload is an upload that the client has begun.
type upload struct {
	id, path string
	content  history.Content
	mu       sync.Mutex
	acked    map[int]bool // parts that were acknowledged, and not taken back
	over     bool         // it is gone or done: found while parts were sent
}

func (u *upload) parts() int { return int((u.content.Size + mib - 1) / mib) }

func (u *upload) missing() (list []int) {
	for n := range u.parts() {
		if !u.acked[n] {
			list = append(list, n)
		}
	}
	return list
}

// view is an upload as the server shows it.
type view struct {
	ID        string
	State     string
	Path      string
	Received  [][2]int
	Node      *node
	Challenge *struct {
		Nonce  string
		Ranges [][2]int64
	}
}

func (v view) has(n int) bool {
	return slices.ContainsFunc(v.Received, func(r [2]int) bool { return r[0] <= n && n <= r[1] })
}

const maxOpen = 4 // uploads of one client

// beginUpload begins an upload. If the reply is lost, it repeats the request, which must return the
// upload that the first one created.
func (c *client) beginUpload(ctx context.Context) {
	if len(c.uploads) >= maxOpen {
		return
	}
	at := c.somePath()
	if slices.ContainsFunc(c.uploads, func(u *upload) bool { return u.path == at }) {
		return
	}
	content := c.content(mib + c.rand.Int64N(5*mib))
	rec := history.Record{
		Do: history.Begin, Path: at, Seed: content.Seed, Size: content.Size, PartSize: mib, Fingerprint: fmt.Sprintf("%s-%d", c.name, c.op+1),
		Claim: c.rand.IntN(3) == 0,
	}
	body := map[string]any{
		"path": at, "size": content.Size, "part_size": mib, "parents": true, "fingerprint": rec.Fingerprint,
		"conflict": []string{"replace", "fail"}[c.rand.IntN(2)],
	}
	if rec.Claim {
		body["digests"] = map[string]string{"blake3": c.digests.of(content)}
	}
	q := request{method: "POST", path: "/uploads", body: body}
	if c.rand.IntN(2) == 0 {
		q.header = map[string]string{"Idempotency-Key": "key-" + rec.Fingerprint}
	}
	wrong := c.rand.IntN(8) == 0
	for range 1 + c.rand.IntN(4) {
		if again := c.tryBegin(ctx, rec, q, content, wrong); !again {
			return
		}
	}
}

// tryBegin sends one begin and reports whether its reply was lost.
func (c *client) tryBegin(ctx context.Context, rec history.Record, q request, content history.Content, wrong bool) (again bool) {
	rec = c.intent(rec)
	r := c.send(ctx, q)
	v, _ := into[view](r) // a refusal has none
	intent, node := rec, ""
	if v.State == "done" && v.Node != nil {
		node = v.Node.ID
	} else {
		intent.Upload = v.ID
	}
	switch c.outcome(intent, r, node) {
	case done:
	case unsure:
		before := c.versions(rec.Path)
		c.settle(ctx, rec.Path, content)
		return c.versions(rec.Path) == before // else it was linked at once
	case refused:
		c.expect(rec, r, "quota", "name-taken", "too-many-open", "rate", "in-progress")
		return r.unsent
	}
	switch {
	case node != "":
		c.count["linked at once"]++
		c.appeared(rec.Path, node, content)
		return false
	case v.State == "done": // its file was deleted since; only a stored answer can say so
		c.fail("begin was answered with a done upload without a node: %s", r)
		return false
	}
	u := &upload{id: v.ID, path: rec.Path, content: content, acked: map[int]bool{}}
	c.uploads = append(c.uploads, u)
	if v.Challenge != nil {
		c.prove(ctx, u, v, wrong)
	}
	return false
}

func (c *client) versions(path string) int {
	if f := c.files[path]; f != nil {
		return len(f.contents)
	}
	return 0
}

// prove answers a challenge, sometimes wrongly.
func (c *client) prove(ctx context.Context, u *upload, v view, wrong bool) {
	nonce, err := hex.DecodeString(v.Challenge.Nonce)
	if err != nil || len(nonce) != 32 {
		c.fail("a challenge with the nonce %q", v.Challenge.Nonce)
		return
	}
	alg, h := "hmac-sha256", hmac.New(sha256.New, nonce)
	if c.rand.IntN(2) == 0 {
		alg, h = "blake3", blake3.New(32, nonce)
	}
	for _, r := range v.Challenge.Ranges {
		var head [12]byte
		binary.LittleEndian.PutUint64(head[:8], uint64(r[0]))
		binary.LittleEndian.PutUint32(head[8:], uint32(r[1]))
		h.Write(head[:])
		h.Write(u.content.Bytes(r[0], r[1]))
	}
	answer := h.Sum(nil)
	if wrong {
		answer[0] ^= 1
	}
	rec := c.intent(history.Record{Do: history.Prove, Upload: u.id, Path: u.path, Seed: u.content.Seed, Size: u.content.Size})
	r := c.send(ctx, request{method: "POST", path: "/uploads/" + u.id + "/proof", body: map[string]string{"alg": alg, "answer": hex.EncodeToString(answer)}})
	now, _ := into[view](r) // a refusal has none
	made := ""
	if now.State == "done" && now.Node != nil {
		made = now.Node.ID
	}
	switch c.outcome(rec, r, made) {
	case done:
		if wrong && made != "" {
			c.fail("a wrong proof linked upload %s: %s", u.id, r)
		}
		if made != "" {
			c.count["linked by proof"]++
			c.appeared(u.path, made, u.content)
			c.drop(u)
		}
	case unsure:
		c.settleUpload(ctx, u)
	case refused:
		c.expect(rec, r, "quota", "name-taken", "version-changed", "gone", "rate")
	}
}
