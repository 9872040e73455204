package columns

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	"lukechampine.com/blake3"

	"example.org/smartdrive/test/history"
)

func uploadDeeds() []deed {
	return []deed{
		{"begin", 10, begin},
		{"part", 16, sendPart},
		{"all parts", 6, sendAll},
		{"whole upload", 4, wholeUpload},
		{"drop part", 2, dropPart},
		{"list parts", 2, listParts},
		{"show upload", 3, showUpload},
		{"list uploads", 1, func(a *actor, p *person, r *rand.Rand) { a.pages(p, r, "/uploads?") }},
		{"patch upload", 4, patchUpload},
		{"prove", 5, prove},
		{"complete", 10, complete},
		{"cancel", 2, cancel},
	}
}

func digestsOf(r *rand.Rand, c history.Content) map[string]string {
	b := bytesOf(c)
	if chance(r, 12) {
		b = append([]byte("wrong"), b...)
	}
	digests := map[string]string{}
	if chance(r, 2) {
		digests["blake3"] = sumOf(b)
	}
	if chance(r, 3) {
		digests["sha256"] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	if chance(r, 4) {
		digests["md5"] = fmt.Sprintf("%x", md5.Sum(b))
	}
	return digests
}

// begin begins an upload, perhaps one that was begun already.
func begin(a *actor, p *person, r *rand.Rand) {
	c := a.content(r, 20*mib)
	body := map[string]any{"path": somePath(r), "size": c.Size, "parents": !chance(r, 4)}
	if chance(r, 4) {
		delete(body, "path")
		delete(body, "parents")
		body["parent"], body["name"] = a.someFolder(p, r), someName(r)
	}
	unknown := chance(r, 6)
	if unknown {
		body["size"] = nil
	} else if chance(r, 40) {
		body["size"] = one[any](r, -1, int64(17)<<40, 300*mib)
	}
	if digests := digestsOf(r, c); len(digests) > 0 && chance(r, 2) {
		body["digests"] = digests
	}
	if chance(r, 4) {
		body["fingerprint"] = one(r, "one", "two", "")
	}
	if chance(r, 6) {
		body["part_size"] = one(r, 8*mib, 16*mib, 12*mib, 1)
	}
	if chance(r, 4) {
		body["mtime"] = "2001-02-03T04:05:06.007Z"
	}
	if chance(r, 8) {
		body["mime"] = one(r, "text/x-own", "none")
	}
	set(body, "conflict", conflict(r, "replace"))
	a.begun(p, r, request{"POST", "/uploads", body, nil}, c, unknown)
}

type uploadView struct {
	ID        string
	State     string
	Size      *int64
	PartSize  int64 `json:"part_size"`
	Challenge *struct {
		Nonce  string
		Ranges [][2]int64
	}
}

func (a *actor) begun(p *person, r *rand.Rand, q request, c history.Content, unknown bool) *sending {
	if chance(r, 4) {
		q.header = append(q.header, "Idempotency-Key", fmt.Sprintf("key-%d", r.IntN(1000)))
		p.keyed = append(p.keyed, q)
	}
	var v uploadView
	got := a.do(p, q)
	if got.status >= 300 || !got.json(&v) {
		return nil
	}
	up := &sending{id: v.ID, content: c, partSize: v.PartSize, unknown: unknown}
	if up.note(v); unknown {
		a.kept = append(a.kept, up.id)
	}
	p.uploads = append(p.uploads, up)
	return up
}

func (up *sending) note(v uploadView) {
	if v.Challenge != nil {
		up.nonce = v.Challenge.Nonce
	}
}

// someUpload is one of a person's, open or not; the latest are likelier.
func (a *actor) someUpload(p *person, r *rand.Rand) *sending {
	if len(p.uploads) == 0 || chance(r, 30) {
		id := one(r, "0198c0de-0000-7000-8000-000000000000", "x")
		return &sending{id: id, content: history.Content{Size: 10}, partSize: 8 * mib}
	}
	if chance(r, 30) {
		if other := pick(r, a.people); len(other.uploads) > 0 {
			return pick(r, other.uploads)
		}
	}
	if chance(r, 2) {
		return p.uploads[len(p.uploads)-1]
	}
	return pick(r, p.uploads)
}

func (up *sending) parts() int { return int((up.content.Size + up.partSize - 1) / up.partSize) }

func (up *sending) part(n int) []byte {
	b := bytesOf(up.content)
	from := min(int64(n)*up.partSize, int64(len(b)))
	return b[from:min(from+up.partSize, int64(len(b)))]
}

func (up *sending) at(n int) string { return fmt.Sprintf("/uploads/%s/parts/%d", up.id, n) }

func sendPart(a *actor, p *person, r *rand.Rand) {
	up := a.someUpload(p, r)
	n := r.IntN(max(up.parts(), 1))
	q := request{"PUT", up.at(n), up.part(n), nil}
	switch r.IntN(14) {
	case 0:
		q.path = up.at(one(r, up.parts(), up.parts()+1, -1, 10_000, 100_000))
	case 1:
		q.body = append([]byte("too long"), up.part(n)...)
	case 2:
		if b := append([]byte(nil), up.part(n)...); len(b) > 0 {
			b[len(b)-1]++
			q.body = b
		}
	case 3:
		q.body = up.part(n)[:len(up.part(n))/2]
	case 4, 5:
		sum := sha256.Sum256(up.part(n))
		if chance(r, 3) {
			sum[0]++
		}
		q.header = []string{"Content-Digest", "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"}
	}
	a.do(p, q)
}

func sendAll(a *actor, p *person, r *rand.Rand) { a.sendAll(p, r, a.someUpload(p, r)) }

func (a *actor) sendAll(p *person, r *rand.Rand, up *sending) {
	for _, n := range r.Perm(up.parts()) {
		if a.do(p, request{"PUT", up.at(n), up.part(n), nil}).status != 204 {
			return
		}
	}
}

func wholeUpload(a *actor, p *person, r *rand.Rand) {
	before := len(p.uploads)
	begin(a, p, r)
	if len(p.uploads) > before {
		up := p.uploads[before]
		a.sendAll(p, r, up)
		a.complete(p, r, up)
	}
}

func dropPart(a *actor, p *person, r *rand.Rand) {
	up := a.someUpload(p, r)
	a.do(p, request{"DELETE", up.at(r.IntN(up.parts() + 1)), nil, nil})
}

func listParts(a *actor, p *person, r *rand.Rand) {
	a.pages(p, r, "/uploads/"+a.someUpload(p, r).id+"/parts?")
}

func showUpload(a *actor, p *person, r *rand.Rand) {
	a.do(p, request{"GET", "/uploads/" + a.someUpload(p, r).id, nil, nil})
}

func patchUpload(a *actor, p *person, r *rand.Rand) {
	up := a.someUpload(p, r)
	body := map[string]any{}
	if digests := digestsOf(r, up.content); len(digests) > 0 {
		body["digests"] = digests
	}
	if chance(r, 3) {
		body["name"] = someName(r)
	}
	if chance(r, 5) {
		body["parent"] = a.someFolder(p, r)
	}
	set(body, "conflict", conflict(r, "replace"))
	var v uploadView
	if a.do(p, request{"PATCH", "/uploads/" + up.id, body, nil}).json(&v) {
		up.note(v)
	}
}

// prove looks for an upload with a challenge, and answers it.
func prove(a *actor, p *person, r *rand.Rand) {
	up := a.someUpload(p, r)
	for _, other := range p.uploads {
		if other.nonce != "" {
			up = other
		}
	}
	if up.nonce == "" { // one that might get a challenge: what others have, claimed
		c := a.content(r, 9*mib)
		body := map[string]any{"path": somePath(r), "parents": true, "size": c.Size, "conflict": "rename", "digests": map[string]string{"blake3": sumOf(bytesOf(c))}}
		if up = a.begun(p, r, request{"POST", "/uploads", body, nil}, c, false); up == nil {
			return
		}
	}
	answer := answerTo(up.nonce, bytesOf(up.content))
	if chance(r, 4) {
		answer = one(r, answerTo(up.nonce, []byte("wrong")), "00", "")
	}
	body := map[string]any{"alg": one(r, "blake3", "blake3", "blake3", "crc32"), "answer": answer}
	if !chance(r, 6) {
		up.nonce = ""
	}
	// The answer follows from a secret.
	if got := a.secretly(p, request{"POST", "/uploads/" + up.id + "/proof", body, nil}); got.status < 300 {
		var v any
		if got.json(&v) {
			p.learn(v)
		}
	}
}

// answerTo is the keyed BLAKE3 over the one range that a file up to 64 MiB is asked for.
func answerTo(nonce string, content []byte) string {
	key, err := hex.DecodeString(nonce)
	if err != nil || len(key) != 32 {
		key = make([]byte, 32)
	}
	h := blake3.New(32, key)
	var head [12]byte
	binary.LittleEndian.PutUint32(head[8:], uint32(len(content)))
	h.Write(head[:])
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

func complete(a *actor, p *person, r *rand.Rand) { a.complete(p, r, a.someUpload(p, r)) }

func (a *actor) complete(p *person, r *rand.Rand, up *sending) {
	body := map[string]any{}
	if up.unknown && !chance(r, 8) {
		body["size"] = up.content.Size
	} else if chance(r, 20) {
		body["size"] = up.content.Size + 1
	}
	if chance(r, 4) {
		if digests := digestsOf(r, up.content); len(digests) > 0 {
			body["digests"] = digests
		}
	}
	if chance(r, 5) {
		body["name"] = someName(r)
	}
	if chance(r, 8) {
		body["parent"] = a.someFolder(p, r)
	}
	set(body, "conflict", conflict(r, "replace", "rename"))
	a.do(p, request{"POST", "/uploads/" + up.id + "/complete", body, nil})
}

func cancel(a *actor, p *person, r *rand.Rand) {
	a.do(p, request{"DELETE", "/uploads/" + a.someUpload(p, r).id, nil, nil})
}
