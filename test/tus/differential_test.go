package tus

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What the two servers answer is compared by status and by these headers.
var compared = []string{
	"Tus-Resumable", "Tus-Version", "Upload-Offset", "Upload-Length", "Upload-Defer-Length", "Upload-Metadata", "Tus-Max-Size",
}

// Of these only whether they are there: both servers have their own addresses and times.
var present = []string{"Location", "Upload-Expires"}

// difference is one that is meant, with the reason. It must still be there.
type difference struct {
	why  string
	what func(did act, ours, theirs answer) bool
}

func statuses(ours, theirs int) func(act, answer, answer) bool {
	return func(_ act, a, b answer) bool { return a.status == ours && b.status == theirs }
}

var differences = []difference{
	{
		"a wrong Content-Type of a PATCH is 415 by tus 1.0.0 §PATCH",
		func(did act, a, b answer) bool {
			return did.what == "type" && a.status == 415 && (b.status == 400 || b.status == 403)
		},
	}, {
		"a version that is not spoken is 412 with Tus-Version by tus 1.0.0 §Tus-Resumable",
		func(did act, a, b answer) bool {
			return did.what == "version" && a.status == 412 && a.header.Get("Tus-Version") == "1.0.0" && b.status/100 == 4 && b.header.Get("Tus-Version") == ""
		},
	}, {
		"a missing Upload-Offset is a request that is not right; the specification has no status for it", statuses(400, 403),
	}, {
		"an upload that was given up was there: 410 is what tus 1.0.0 §Termination names besides 404", statuses(410, 404),
	}, {
		"DELETE of a finished upload does not delete the file, which belongs to somebody's drive", statuses(403, 204),
	}, {
		"the same, and so it is there afterwards",
		func(did act, a, b answer) bool {
			return did.up != nil && did.up.deleted && a.status < 300 && b.status == 404
		},
	}, {
		"the same, and so it still refuses for another reason",
		func(did act, a, b answer) bool {
			return did.up != nil && did.up.deleted && slices.Contains([]int{403, 409, 413}, a.status) && b.status == 404
		},
	}, {
		"an offset or length of digits with zeros before them is a number",
		func(did act, a, b answer) bool { return did.what == "zeros" && a.status < 300 && b.status == 400 },
	}, {
		"the same length declared again is no contradiction",
		func(did act, a, b answer) bool {
			return did.what == "length again" && a.status == 204 && b.status == 400
		},
	}, {
		"an address that has no such method is 405, as everywhere",
		statuses(405, 404),
	}, {
		"none of its stores can concatenate; TestConcatenation holds ours to the text of the protocol",
		func(did act, a, b answer) bool { return did.what == "concat" && a.status != 501 && b.status == 501 },
	},
}

// pair is an upload on both servers.
type pair struct {
	ours, theirs string // addresses
	size, offset int    // size: -1 deferred
	deleted      bool   // of a finished one, which is there in one place
	gone         bool   // in both places
	spoilt       bool   // the servers no longer hold the same: nothing more is asked of it
}

// long is what the reference answers to bytes beyond the end.
func (p *pair) long() int {
	if p.gone || p.deleted {
		return http.StatusNotFound
	}
	return http.StatusRequestEntityTooLarge
}

// act is one request that both get.
type act struct {
	what   string
	method string
	up     *pair // nil: the collection
	h      header
	body   []byte
}

// reference starts @tus/server.
func reference(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), node(t), "clients/reference.mjs", t.TempDir())
	if _, err := cmd.StdinPipe(); err != nil { // it ends with us
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// The same random requests go to SmartDrive and to @tus/server, whose answers must be the same but
// for the differences above.
func TestSameAsTusServer(t *testing.T) {
	t.Parallel()
	theirs := reference(t)
	d := newDrive(t)
	seen := make([]int, len(differences))
	r := rand.New(rand.NewPCG(1, 2))
	var pairs []*pair
	for step := range 1500 {
		did := next(r, step, pairs)
		ourURL, theirURL := "/tus", theirs+"/tus"
		if did.up != nil {
			ourURL, theirURL = did.up.ours, did.up.theirs
		}
		a := d.ask(did.method, ourURL, did.h, bytes.NewReader(did.body))
		b, err := d.try(t.Context(), did.method, theirURL, did.h, bytes.NewReader(did.body))
		for again := 0; err != nil && did.what != "long" && again < 100; again++ { // it closes a connection whose body it has not read
			b, err = d.try(t.Context(), did.method, theirURL, did.h, bytes.NewReader(did.body))
		}
		if err != nil && did.what == "long" { // it closes the connection in the middle, and its answer is lost then
			b = answer{status: did.up.long(), header: a.header}
		} else if err != nil {
			t.Fatal(err)
		}
		agrees := sameAnswer(did, a, b)
		for i, known := range differences {
			if agrees != nil && known.what(did, a, b) {
				seen[i]++
				agrees = nil
			}
		}
		if agrees != nil {
			t.Errorf("step %d: %s %s %v, %d bytes: %v", step, did.what, did.method, did.h, len(did.body), agrees)
			if t.Failed() && step > 0 && did.up != nil {
				did.up.spoilt = true
			}
		}
		pairs = follow(pairs, did, a, b)
	}
	for i, known := range differences {
		if seen[i] == 0 {
			t.Errorf("this difference was not seen: %s", known.why)
		}
	}
}

func sameAnswer(did act, a, b answer) error {
	if a.status != b.status {
		return fmt.Errorf("%d, there %d", a.status, b.status)
	}
	for _, name := range compared {
		if name == "Upload-Metadata" && did.method != http.MethodHead {
			continue
		}
		if ours, theirs := a.header.Get(name), b.header.Get(name); ours != theirs {
			return fmt.Errorf("%d: %s is %q, there %q", a.status, name, ours, theirs)
		}
	}
	for _, name := range present {
		if did.method == http.MethodHead { // here HEAD tells when it expires, too
			continue
		}
		if ours, theirs := a.header.Get(name) != "", b.header.Get(name) != ""; ours != theirs {
			return fmt.Errorf("%d: %s is there: %v, there: %v", a.status, name, ours, theirs)
		}
	}
	return nil
}

// follow keeps track of what is where.
func follow(pairs []*pair, did act, a, b answer) []*pair {
	switch {
	case did.method == http.MethodPost && a.status == 201 && b.status == 201:
		p := &pair{ours: a.header.Get("Location"), theirs: b.header.Get("Location"), size: -1}
		_, _ = fmt.Sscan(did.h["Upload-Length"], &p.size)
		_, _ = fmt.Sscan(a.header.Get("Upload-Offset"), &p.offset)
		return append(pairs, p)
	case did.method == http.MethodPatch && a.status == 204 && b.status == 204:
		_, _ = fmt.Sscan(a.header.Get("Upload-Offset"), &did.up.offset)
		_, _ = fmt.Sscan(did.h["Upload-Length"], &did.up.size)
	case did.method == http.MethodDelete && a.status == 204 && b.status == 204:
		did.up.gone = true
	case did.method == http.MethodDelete && a.status != b.status:
		did.up.deleted = true
	case did.what == "long":
		did.up.spoilt = true // the other one has kept some of it
	}
	return slices.DeleteFunc(pairs, func(p *pair) bool { return p.spoilt })
}

// next makes up a request.
func next(r *rand.Rand, step int, pairs []*pair) act {
	if len(pairs) == 0 || r.IntN(6) == 0 {
		return creation(r, step)
	}
	p := pairs[r.IntN(len(pairs))]
	if r.IntN(3) > 0 {
		p = pairs[len(pairs)-1] // the newest: uploads come to their ends
	}
	switch r.IntN(12) {
	case 0:
		return act{what: "delete", method: http.MethodDelete, up: p, h: with()}
	case 1, 2, 3:
		return act{what: "head", method: http.MethodHead, up: p, h: with()}
	case 4:
		return act{what: "version", method: []string{"HEAD", "PATCH", "DELETE"}[r.IntN(3)], up: p, h: header{"Tus-Resumable": []string{"", "0.2.2"}[r.IntN(2)]}}
	case 5:
		return act{what: "put", method: http.MethodPut, up: p, h: with()}
	}
	return appending(r, p)
}

func creation(r *rand.Rand, step int) act {
	did := act{what: "create", method: http.MethodPost, h: with("Upload-Length", fmt.Sprint(r.IntN(3)*r.IntN(100_000)))}
	if r.IntN(3) > 0 {
		did.h["Upload-Metadata"] = metadata("filename", fmt.Sprintf("f%d", step)) + []string{"", ",empty", ",filetype dGV4dC9wbGFpbg=="}[r.IntN(3)]
	}
	switch r.IntN(12) {
	case 0:
		did.h["Upload-Length"] = []string{"-1", "x", "1.5", "17592186044417"}[r.IntN(4)]
	case 1:
		did.h["Upload-Defer-Length"] = "1"
	case 2, 3:
		delete(did.h, "Upload-Length")
		did.h["Upload-Defer-Length"] = []string{"1", "1", "2"}[r.IntN(3)]
	case 4:
		delete(did.h, "Upload-Length")
	case 5:
		did.h["Upload-Metadata"] = []string{"a b c", "filename !!", ",", "a MQ==,a MQ==", " x"}[r.IntN(5)]
	case 6:
		did.what, did.h["Upload-Length"] = "zeros", "0012"
	case 7:
		return act{what: "options", method: http.MethodOptions, h: header{}}
	case 10:
		did.what, did.h["Upload-Concat"] = "concat", []string{"partial", "partial", "final;/tus/x", "final;", "whole"}[r.IntN(5)]
		if strings.HasPrefix(did.h["Upload-Concat"], "final") {
			delete(did.h, "Upload-Length")
		}
	case 8, 9:
		size := 0
		if _, err := fmt.Sscan(did.h["Upload-Length"], &size); err == nil && size > 0 {
			did.h["Content-Type"] = "application/offset+octet-stream"
			did.body = noise(r.IntN(size+1), uint64(size))
		}
	}
	return did
}

func appending(r *rand.Rand, p *pair) act {
	did := act{what: "append", method: http.MethodPatch, up: p, h: chunk(p.offset)}
	left := p.size - p.offset
	if p.size < 0 {
		left = 50_000
	}
	did.body = noise(r.IntN(max(left, 0)+1), uint64(p.offset))
	switch r.IntN(12) {
	case 0:
		did.h["Upload-Offset"] = fmt.Sprint(p.offset + 1 + r.IntN(10))
	case 1:
		did.h["Upload-Offset"] = []string{"-1", "x", "1e3"}[r.IntN(3)]
	case 2:
		delete(did.h, "Upload-Offset")
	case 3:
		did.what, did.h["Content-Type"] = "type", []string{"", "text/plain"}[r.IntN(2)]
	case 4:
		if p.size > 0 && p.offset < p.size {
			did.what, did.body = "long", noise(left+1, 9)
		}
	case 5:
		if p.size < 0 {
			did.h["Upload-Length"] = fmt.Sprint(p.offset + len(did.body) + r.IntN(100))
		}
	case 6:
		if p.size >= 0 && p.offset < p.size {
			did.what, did.h["Upload-Length"], did.body = "length again", fmt.Sprint(p.size), nil
		}
	case 7:
		did.body = did.body[:0]
	case 8:
		if left > 0 && p.size >= 0 {
			did.body = noise(left, uint64(p.offset))
		}
	}
	return did
}
