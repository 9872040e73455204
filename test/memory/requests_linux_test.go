package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/system/rig"
)

// inFlight is how many requests a user may have in flight.
const inFlight = 32

func printable(r rig.Reply) string {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/") {
		return string(r.Bytes)
	}
	return r.Header.Get("Content-Type")
}

// passwords are tried for one name each from many addresses: each that gets its turn is hashed.
func passwords(s *stage) plan {
	n := depth.Pick(4, 32, 512)
	return plan{run: func() {
		each(n, func(i int) {
			u := s.from(fmt.Sprintf("127.0.%d.%d", 1+i/200, 1+i%200))
			s.ask(u, "POST", "/sessions", map[string]any{"name": fmt.Sprintf("nobody%d", i), "password": "wrong, and long enough"})
		})
	}, end: nothing}
}

// searches lets two users search many names, without a match and with a page of matches.
func searches(s *stage) plan {
	const users = 2
	for n := range users {
		u := s.user("search", n)
		top := s.folder(u, "root", "names")
		first := s.folder(u, top, "first")
		s.fill(u, "/names/first", strings.Repeat("\u4e2d", 80), 500)
		for i := range depth.Pick(1, 10, 100) {
			u.Post(s, "/nodes/"+first+"/copy", map[string]any{"parent": top, "name": fmt.Sprint(i)}).Is(s, http.StatusCreated)
		}
	}
	return plan{run: func() {
		each(users*inFlight, func(i int) {
			for _, q := range []string{"nothing+like+it", "%E4%B8%AD"} {
				s.ask(s.user("search", i%users), "GET", "/search?limit=1000&q="+q, nil)
			}
		})
	}, end: nothing}
}

// lists are the longest pages of the longest names.
func lists(s *stage) plan {
	const users = 4
	var folders [users]string
	for n := range users {
		u := s.user("page", n)
		folders[n] = s.folder(u, "root", "many")
		s.fill(u, "/many", strings.Repeat("n", 240), depth.Pick(10, 1_000, 10_000))
	}
	return plan{run: func() {
		each(users*inFlight, func(i int) {
			u := s.user("page", i%users)
			s.ask(u, "GET", "/nodes/"+folders[i%users]+"/children?limit=1000", nil)
			s.ask(u, "GET", "/changes?limit=1000", nil)
		})
	}, end: nothing}
}

// proofs answers challenges about another user's content; the server reads the whole content.
func proofs(s *stage) plan {
	size := int64(depth.Pick(2, 8, 64)) * mib
	asked := depth.Pick(1, 4, 8)
	owner := s.user("owner", 0)
	var contents []history.Content
	for i := range asked {
		c := history.Content{Seed: uint64(300 + i), Size: size}
		owner.Put(s, fmt.Sprintf("/%d", i), c)
		contents = append(contents, c)
	}
	var open []string
	thief := s.user("thief", 0)
	for i, c := range contents {
		doc := thief.Post(s, "/uploads", map[string]any{
			"path": fmt.Sprintf("/%d", i), "size": c.Size, "digests": map[string]string{"blake3": c.Digest()},
		}).JSON(s, http.StatusCreated)
		if doc["challenge"] == nil {
			s.Errorf("no question for content that somebody has: %v", doc)
		}
		open = append(open, doc["id"].(string))
	}
	return plan{run: func() {
		each(len(open), func(i int) {
			s.ask(thief, "POST", "/uploads/"+open[i]+"/proof", map[string]string{"alg": "blake3", "answer": strings.Repeat("00", 32)})
		})
	}, end: nothing}
}

// stalled sends half of each part and then waits.
func stalled(s *stage) plan {
	users := depth.Pick(1, 2, 8)
	var open []string
	for n := range users {
		doc := s.user("stall", n).Post(s, "/uploads", map[string]any{"path": "/large", "size": 64 * 8 * mib, "part_size": 8 * mib})
		open = append(open, doc.JSON(s, http.StatusCreated)["id"].(string))
	}
	half := make([]byte, 4*mib)
	h := new(held)
	return plan{run: func() {
		each(users*inFlight, func(i int) {
			n := i % users
			path := fmt.Sprintf("/api/v1/uploads/%s/parts/%d", open[n], i/users)
			h.open(s, address(i), head("PUT", path, s.user("stall", n).Token, fmt.Sprintf("Content-Length: %d", 8*mib)), half)
		})
		s.calm()
	}, end: h.close}
}

// checked sends bodies that do not match their digest. The server must buffer them until the digest
// is checked.
func checked(s *stage) plan {
	users := depth.Pick(1, 2, 4)
	c := history.Content{Seed: 5, Size: int64(depth.Pick(8, 32, 256)) * mib}
	return plan{run: func() {
		each(2*users, func(i int) {
			u := s.user("tus", i%users)
			name := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "checked %d", i))
			made := s.tus(u, "POST", "/tus/", nil, "Upload-Length", fmt.Sprint(c.Size), "Upload-Metadata", "filename "+name)
			sum := base64.StdEncoding.EncodeToString(make([]byte, sha256.Size))
			r := s.tus(u, "PATCH", made.Header.Get("Location"), &c, "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream",
				"Upload-Checksum", "sha256 "+sum)
			if r.StatusCode != 460 && r.StatusCode != http.StatusServiceUnavailable { // tus 1.0.0 §Checksum
				s.Errorf("a body with a false digest is answered with %s", r)
			}
		})
	}, end: nothing}
}

func (s *stage) tus(u rig.User, method, at string, c *history.Content, header ...string) rig.Reply {
	s.Helper()
	if !strings.HasPrefix(at, "http") {
		at = u.URL + at
	}
	req, err := http.NewRequestWithContext(s.Context(), method, at, http.NoBody)
	if err == nil && c != nil {
		req, err = http.NewRequestWithContext(s.Context(), method, at, c.Reader())
		req.ContentLength = c.Size
	}
	if err != nil {
		s.Error(err)
		return rig.Reply{Response: &http.Response{Header: http.Header{}}}
	}
	r, err := u.Send(req, append(header, "Tus-Resumable", "1.0.0")...)
	if err != nil {
		s.Errorf("%s %s: %v", method, at, err)
		return rig.Reply{Response: &http.Response{Header: http.Header{}}}
	}
	return r
}

// bodies are the longest JSON that requests may have, of the smallest values.
func bodies(s *stage) plan {
	users := depth.Pick(1, 2, 8)
	var nodes []string
	for range 26_000 {
		nodes = append(nodes, "01900000-0000-7000-8000-000000000000")
	}
	export, err := json.Marshal(map[string]any{"nodes": nodes})
	if err != nil {
		s.Fatal(err)
	}
	small := []byte(`{"nodes":[` + strings.TrimSuffix(strings.Repeat(`"",`, 300_000), ",") + `]}`)
	return plan{run: func() {
		each(users*inFlight, func(i int) {
			u := s.user("json", i%users)
			for _, body := range [][]byte{export, small} {
				s.ask(u, "POST", "/exports", bytes.NewReader(body), "Content-Type", "application/json")
			}
		})
	}, end: nothing}
}

// pages sends the requests that a browser sends first.
func pages(s *stage) plan {
	n := depth.Pick(4, 32, 256)
	return plan{run: func() {
		each(n, func(i int) {
			u := s.from(address(i))
			for _, path := range []string{"/", "/login", "/api/v1/openapi.json"} {
				req, err := http.NewRequestWithContext(s.Context(), "GET", u.URL+path, nil)
				if err != nil {
					s.Error(err)
					return
				}
				if _, err := u.Send(req); err != nil {
					s.Error(err)
				}
			}
		})
	}, end: nothing}
}
