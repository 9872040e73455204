package clienttest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"net/http"
	"slices"
	"strconv"
	"time"

	"lukechampine.com/blake3"
)

// upload is an upload in parts.
type upload struct {
	ID          string     `json:"id"`
	State       string     `json:"state"`
	Path        string     `json:"path"`
	Conflict    string     `json:"conflict"`
	Size        int64      `json:"size"`
	PartSize    int64      `json:"part_size"`
	Parts       int64      `json:"parts"`
	Received    [][2]int64 `json:"received"`
	Challenge   *challenge `json:"challenge,omitempty"`
	Node        *node      `json:"node,omitempty"`
	ExpiresAt   time.Time  `json:"expires_at"`
	fingerprint string
	base        int // versions at the path when the conflict policy was set
	mtime       time.Time
	parts       map[int64][]byte
	polls       int
}

// challenge is a challenge as the API encodes it.
type challenge struct {
	Nonce  string     `json:"nonce"`
	Ranges [][2]int64 `json:"ranges"`
}

// MakeClaimable makes content claimable: a claim of its digest gets a challenge.
func (s *Server) MakeClaimable(content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimable[DigestOf(content)] = content
}

// OpenUploads returns the ids of the open uploads.
func (s *Server) OpenUploads() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := []string{}
	for id, u := range s.uploads {
		if u.State != "done" {
			ids = append(ids, id)
		}
	}
	return ids
}

// ReceivedParts returns the number of parts that the uploads which are not complete have received,
// all together.
func (s *Server) ReceivedParts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, u := range s.uploads {
		if u.State != "done" {
			n += len(u.parts)
		}
	}
	return n
}

// DamagePart flips a bit of part n of every open upload.
func (s *Server) DamagePart(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.uploads {
		if p := u.parts[n]; p != nil && u.State != "done" {
			u.parts[n] = append([]byte{p[0] ^ 1}, p[1:]...)
		}
	}
}

// DeleteUploads deletes all uploads, as the server's reclaim does.
func (s *Server) DeleteUploads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.uploads)
}

// uploadRoutes registers the routes of uploads.
func (s *Server) uploadRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /api/v1/uploads", s.begin)
	mux.HandleFunc("GET /api/v1/uploads", func(w http.ResponseWriter, _ *http.Request) {
		items := []*upload{}
		for _, u := range s.uploads {
			if u.State != "done" {
				items = append(items, u.view())
			}
		}
		reply(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil})
	})
	mux.HandleFunc("GET /api/v1/uploads/{id}", s.withUpload(func(w http.ResponseWriter, _ *http.Request, u *upload) { reply(w, http.StatusOK, u.view()) }))
	mux.HandleFunc("PATCH /api/v1/uploads/{id}", s.withUpload(s.amend))
	mux.HandleFunc("DELETE /api/v1/uploads/{id}", s.withUpload(func(w http.ResponseWriter, _ *http.Request, u *upload) {
		delete(s.uploads, u.ID)
		w.WriteHeader(http.StatusNoContent)
	}))
	mux.HandleFunc("GET /api/v1/uploads/{id}/parts", s.withUpload(listParts))
	mux.HandleFunc("PUT /api/v1/uploads/{id}/parts/{n}", s.withUpload(putPart))
	mux.HandleFunc("DELETE /api/v1/uploads/{id}/parts/{n}", s.withUpload(dropPart))
	mux.HandleFunc("POST /api/v1/uploads/{id}/proof", s.withUpload(s.prove))
	mux.HandleFunc("POST /api/v1/uploads/{id}/complete", s.withUpload(s.complete))
}

// withUpload looks up the upload of a request before calling do; it replies 404 if there is none.
func (s *Server) withUpload(do func(http.ResponseWriter, *http.Request, *upload)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if u := s.uploads[r.PathValue("id")]; u != nil {
			do(w, r, u)
			return
		}
		replyProblem(w, http.StatusNotFound, "not-found", nil)
	}
}

// view sets u.Received from the stored parts and returns u.
func (u *upload) view() *upload {
	u.Received = [][2]int64{}
	for n := range u.Parts {
		if u.parts[n] != nil {
			u.Received = append(u.Received, [2]int64{n, n})
		}
	}
	return u
}

// uploadRequest is the body of requests that begin, amend or complete an upload.
type uploadRequest struct {
	Path, Fingerprint, Conflict string
	Size                        int64
	Part                        int64 `json:"part_size"`
	Mtime                       time.Time
	Parents                     bool
	Digests                     map[string]string
}

// begin replies with a matching open upload, with an empty list of received parts, or creates one.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) {
	var in uploadRequest
	decode(r, &in)
	for _, u := range s.uploads {
		if u.State != "done" && u.Path == in.Path && u.Size == in.Size && u.fingerprint == in.Fingerprint {
			short := *u // simulates a stale reply from before the parts arrived
			short.Received = [][2]int64{}
			reply(w, http.StatusOK, &short)
			return
		}
	}
	if s.targetPath(w, in.Path, in.Conflict, in.Parents) == "" {
		return
	}
	u := &upload{
		ID: newID(), State: "active", Path: in.Path, Size: in.Size, PartSize: in.Part, Parts: (in.Size + in.Part - 1) / in.Part,
		fingerprint: in.Fingerprint, Conflict: in.Conflict, base: s.versions(in.Path), mtime: in.Mtime, parts: map[int64][]byte{},
	}
	s.uploads[u.ID] = u
	s.challenge(u, in.Digests["blake3"])
	reply(w, http.StatusCreated, u.view())
}

// challenge adds a challenge to u if the digest's content is claimable.
func (s *Server) challenge(u *upload, digest string) {
	if content := s.claimable[digest]; content != nil && int64(len(content)) == u.Size {
		nonce := blake3.Sum256([]byte(u.ID))
		u.Challenge = &challenge{hex.EncodeToString(nonce[:]), [][2]int64{{0, 4096}, {u.Size - 100, 100}, {u.Size / 2, 77}}}
	}
}

// amend changes the conflict mode and issues a challenge for claimed digests.
func (s *Server) amend(w http.ResponseWriter, r *http.Request, u *upload) {
	var in uploadRequest
	decode(r, &in)
	if in.Conflict != "" {
		u.Conflict, u.base = in.Conflict, s.versions(u.Path)
	}
	s.challenge(u, in.Digests["blake3"])
	reply(w, http.StatusOK, u.view())
}

// versions returns the number of versions at a path.
func (s *Server) versions(p string) int {
	if n := s.nodes[p]; n != nil {
		return n.versions
	}
	return 0
}

// prove completes the upload if the answer proves known content; else it withdraws the challenge.
func (s *Server) prove(w http.ResponseWriter, r *http.Request, u *upload) {
	var in struct{ Alg, Answer string }
	decode(r, &in)
	if u.State != "active" {
		replyProblem(w, http.StatusConflict, "state", map[string]any{"state": u.State})
		return
	}
	for _, content := range s.claimable {
		if u.Challenge == nil || int64(len(content)) != u.Size || u.answer(content) != in.Answer {
			continue
		}
		u.State, u.Node = "done", s.store(u.Path, content, u.mtime)
		reply(w, http.StatusCreated, u.view())
		return
	}
	u.Challenge = nil
	reply(w, http.StatusOK, u.view())
}

// answer returns the right answer to the upload's challenge for content.
func (u *upload) answer(content []byte) string {
	key, _ := hex.DecodeString(u.Challenge.Nonce) // made here
	h := blake3.New(32, key)
	for _, r := range u.Challenge.Ranges {
		_ = binary.Write(h, binary.LittleEndian, uint64(r[0])) // a hash does not fail
		_ = binary.Write(h, binary.LittleEndian, uint32(r[1]))
		_, _ = h.Write(content[r[0] : r[0]+r[1]])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// listParts replies with the received parts in order.
func listParts(w http.ResponseWriter, _ *http.Request, u *upload) {
	items := []map[string]any{}
	for n := range u.Parts {
		if p := u.parts[n]; p != nil {
			items = append(items, map[string]any{"n": n, "size": len(p), "crc32": crc32.ChecksumIEEE(p), "cv": nil})
		}
	}
	reply(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil})
}

// putPart stores a part; a wrong length, other bytes than before or an ended upload are refused.
func putPart(w http.ResponseWriter, r *http.Request, u *upload) {
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	want := min(u.PartSize, u.Size-n*u.PartSize)
	switch body := bodyOf(r); {
	case u.State != "active":
		replyProblem(w, http.StatusConflict, "state", map[string]any{"state": u.State})
	case err != nil || n >= u.Parts || int64(len(body)) != want:
		replyProblem(w, http.StatusBadRequest, "part-size", map[string]any{"limit": want, "sent": len(body)})
	case u.parts[n] != nil && !bytes.Equal(u.parts[n], body):
		replyProblem(w, http.StatusConflict, "part-differs", nil)
	default:
		u.parts[n] = body
		w.WriteHeader(http.StatusNoContent)
	}
}

// dropPart deletes a part; a missing one is not an error.
func dropPart(w http.ResponseWriter, r *http.Request, u *upload) {
	n, _ := strconv.ParseInt(r.PathValue("n"), 10, 64) // an invalid number counts as 0
	delete(u.parts, n)
	w.WriteHeader(http.StatusNoContent)
}

// complete replies 202 at the first call and creates the file at the next one. Missing parts, a
// wrong digest and a changed version are refused; the last makes the upload active again.
func (s *Server) complete(w http.ResponseWriter, r *http.Request, u *upload) {
	var in uploadRequest
	decode(r, &in)
	if u.State == "done" {
		reply(w, http.StatusOK, u.view())
		return
	}
	missing, content := [][2]int64{}, []byte{}
	for n := range u.Parts {
		if u.parts[n] == nil {
			missing = append(missing, [2]int64{n, n})
		}
		content = slices.Concat(content, u.parts[n])
	}
	switch {
	case len(missing) > 0:
		replyProblem(w, http.StatusConflict, "parts-missing", map[string]any{"missing": missing})
		return
	case in.Digests["blake3"] != DigestOf(content):
		replyProblem(w, http.StatusUnprocessableEntity, "digest-mismatch", nil)
		return
	}
	if u.polls++; u.polls == 1 {
		u.State = "sealing"
		reply(w, http.StatusAccepted, map[string]any{"state": "sealing", "progress": map[string]int64{"done": 1, "total": 2}})
		return
	}
	if in.Conflict != "" {
		u.Conflict, u.base = in.Conflict, s.versions(u.Path)
	}
	if u.Conflict == "replace" && s.versions(u.Path) != u.base {
		u.State = "active"
		replyProblem(w, http.StatusConflict, "version-changed", nil)
		return
	}
	p := s.targetPath(w, u.Path, u.Conflict, false)
	if p == "" {
		u.State = "active"
		return
	}
	u.State, u.Node = "done", s.store(p, content, u.mtime)
	reply(w, http.StatusCreated, u.view())
}
