package clienttest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"lukechampine.com/blake3"
)

type node struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Path      string            `json:"path"`
	Type      string            `json:"type"`
	Size      int64             `json:"size"`
	Mtime     time.Time         `json:"mtime"`
	Rev       int64             `json:"rev"`
	Digests   map[string]string `json:"digests"`
	TrashedAt *time.Time        `json:"trashed_at"`
	content   []byte
	versions  int
	had       []map[string]string // digests of the versions, the oldest first
	starred   bool
}

func (n *node) star(w http.ResponseWriter, on bool) {
	n.starred = on
	w.WriteHeader(http.StatusNoContent)
}

// bodyOf reads the body, once; it has come in full before the handler is called.
func bodyOf(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	return body
}

func decode(r *http.Request, v any) { _ = json.Unmarshal(bodyOf(r), v) } // what does not fit stays zero

// DigestOf returns the BLAKE3 of content in hex.
func DigestOf(content []byte) string {
	sum := blake3.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// File returns the content at a path, nil when there is none, and how many versions it had.
func (s *Server) File(path string) (content []byte, versions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[path]; n != nil && n.TrashedAt == nil {
		return n.content, n.versions
	}
	return nil, 0
}

// Paths returns all paths, sorted.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.nodes))
}

// Redirect sends downloads on to where elsewhere says that content is.
func (s *Server) Redirect(elsewhere func(content []byte) (url string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elsewhere = elsewhere
}

// Store puts a file there without a request.
func (s *Server) Store(path string, content []byte, mtime time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parents(path)
	s.store(path, content, mtime)
}

func (s *Server) store(p string, content []byte, mtime time.Time) *node {
	n := s.nodes[p]
	if n == nil {
		n = &node{ID: newID(), Path: p, Name: path.Base(p), Type: "file"}
		s.nodes[p] = n
	}
	n.content, n.Size, n.Mtime = content, int64(len(content)), mtime.UTC().Truncate(time.Millisecond)
	n.Digests = map[string]string{"blake3": DigestOf(content)}
	n.had = append(n.had, n.Digests)
	n.versions++
	n.Rev++
	return n
}

func (s *Server) parents(p string) {
	for dir := path.Dir(p); s.nodes[dir] == nil; dir = path.Dir(dir) {
		s.nodes[dir] = &node{ID: newID(), Path: dir, Name: path.Base(dir), Type: "folder"}
	}
}

// place settles conflicts; an empty path means that fail was called.
func (s *Server) place(w http.ResponseWriter, p, conflict string, parents bool) string {
	if s.nodes[path.Dir(p)] == nil {
		if !parents {
			fail(w, http.StatusNotFound, "not-found", nil)
			return ""
		}
		s.parents(p)
	}
	switch n := s.nodes[p]; {
	case n == nil, conflict == "replace" && n.Type == "file":
		return p
	case conflict == "rename":
		ext := path.Ext(p)
		for i := 2; ; i++ {
			if q := strings.TrimSuffix(p, ext) + " (" + strconv.Itoa(i) + ")" + ext; s.nodes[q] == nil {
				return q
			}
		}
	}
	fail(w, http.StatusConflict, "name-taken", nil)
	return ""
}

func (s *Server) nodeRoutes(mux *http.ServeMux) {
	mux.HandleFunc("PUT /api/v1/files/{path...}", s.putFile)
	mux.HandleFunc("GET /api/v1/nodes", s.nodeAt)
	mux.HandleFunc("POST /api/v1/nodes", s.makeFolder)
	mux.HandleFunc("GET /api/v1/nodes/{id}", s.with(func(w http.ResponseWriter, _ *http.Request, n *node) { reply(w, http.StatusOK, n) }))
	mux.HandleFunc("GET /api/v1/nodes/{id}/children", s.with(s.children))
	mux.HandleFunc("GET /api/v1/nodes/{id}/content", s.with(s.content))
	mux.HandleFunc("GET /api/v1/nodes/{id}/versions", s.with(showVersions))
	mux.HandleFunc("PATCH /api/v1/nodes/{id}", s.with(s.move))
	mux.HandleFunc("POST /api/v1/nodes/{id}/copy", s.with(s.copy))
	mux.HandleFunc("DELETE /api/v1/nodes/{id}", s.with(s.trash))
	mux.HandleFunc("POST /api/v1/nodes/{id}/restore", s.with(s.restore))
	mux.HandleFunc("PUT /api/v1/nodes/{id}/star", s.with(func(w http.ResponseWriter, _ *http.Request, n *node) { n.star(w, true) }))
	mux.HandleFunc("DELETE /api/v1/nodes/{id}/star", s.with(func(w http.ResponseWriter, _ *http.Request, n *node) { n.star(w, false) }))
	mux.HandleFunc("GET /api/v1/starred", func(w http.ResponseWriter, _ *http.Request) {
		s.list(w, func(n *node) bool { return n.starred && n.TrashedAt == nil })
	})
	mux.HandleFunc("GET /api/v1/recent", func(w http.ResponseWriter, _ *http.Request) {
		s.list(w, func(n *node) bool { return n.Type == "file" && n.TrashedAt == nil })
	})
	mux.HandleFunc("GET /api/v1/trash", func(w http.ResponseWriter, _ *http.Request) {
		s.list(w, func(n *node) bool { return n.TrashedAt != nil })
	})
}

// with finds the node that a request is about.
func (s *Server) with(do func(http.ResponseWriter, *http.Request, *node)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, n := range s.nodes {
			if n.ID == r.PathValue("id") {
				do(w, r, n)
				return
			}
		}
		fail(w, http.StatusNotFound, "not-found", nil)
	}
}

func (s *Server) putFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := s.place(w, "/"+r.PathValue("path"), q.Get("conflict"), q.Get("parents") == "true")
	if p == "" {
		return
	}
	ms, _ := strconv.ParseInt(r.Header.Get("X-Mtime"), 10, 64) // absent is the epoch
	reply(w, http.StatusCreated, s.store(p, bodyOf(r), time.UnixMilli(ms)))
}

func (s *Server) nodeAt(w http.ResponseWriter, r *http.Request) {
	if n := s.nodes[r.URL.Query().Get("path")]; n != nil && n.TrashedAt == nil {
		reply(w, http.StatusOK, n)
		return
	}
	fail(w, http.StatusNotFound, "not-found", nil)
}

func (s *Server) makeFolder(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Path    string
		Parents bool
	}
	decode(r, &in)
	if in.Path = s.place(w, in.Path, "fail", in.Parents); in.Path == "" {
		return
	}
	s.nodes[in.Path] = &node{ID: newID(), Path: in.Path, Name: path.Base(in.Path), Type: "folder"}
	reply(w, http.StatusCreated, s.nodes[in.Path])
}

func (s *Server) children(w http.ResponseWriter, _ *http.Request, dir *node) {
	s.list(w, func(n *node) bool { return n != dir && n.TrashedAt == nil && path.Dir(n.Path) == dir.Path })
}

func (s *Server) list(w http.ResponseWriter, which func(*node) bool) {
	items := []*node{}
	for _, p := range slices.Sorted(maps.Keys(s.nodes)) {
		if which(s.nodes[p]) {
			items = append(items, s.nodes[p])
		}
	}
	reply(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil})
}

func (s *Server) content(w http.ResponseWriter, r *http.Request, n *node) {
	w.Header().Set("ETag", `"b3-`+n.Digests["blake3"]+`"`)
	if s.elsewhere != nil {
		w.Header().Set("Location", s.elsewhere(n.content))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", n.Mtime, bytes.NewReader(n.content))
}

func showVersions(w http.ResponseWriter, _ *http.Request, n *node) {
	items := []map[string]any{}
	for i, digests := range slices.Backward(n.had) {
		items = append(items, map[string]any{"id": strconv.Itoa(i), "digests": digests, "current": i == len(n.had)-1})
	}
	reply(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil})
}

// relocate reads where a node is to go; the fake moves files and empty folders only.
func (s *Server) relocate(w http.ResponseWriter, r *http.Request, n *node) string {
	var in struct{ Parent, Name, Conflict string }
	decode(r, &in)
	dir, name := path.Dir(n.Path), n.Name
	for _, p := range s.nodes {
		if p.ID == in.Parent {
			dir = p.Path
		}
	}
	if in.Name != "" {
		name = in.Name
	}
	return s.place(w, path.Join(dir, name), in.Conflict, false)
}

func (s *Server) move(w http.ResponseWriter, r *http.Request, n *node) {
	to := s.relocate(w, r, n)
	if to == "" {
		return
	}
	delete(s.nodes, n.Path)
	n.Path, n.Name = to, path.Base(to)
	s.nodes[to] = n
	reply(w, http.StatusOK, n)
}

func (s *Server) copy(w http.ResponseWriter, r *http.Request, n *node) {
	if to := s.relocate(w, r, n); to != "" {
		reply(w, http.StatusCreated, s.store(to, n.content, n.Mtime))
	}
}

func (s *Server) trash(w http.ResponseWriter, r *http.Request, n *node) {
	maps.DeleteFunc(s.nodes, func(p string, _ *node) bool { return strings.HasPrefix(p, n.Path+"/") })
	if delete(s.nodes, n.Path); r.URL.Query().Get("permanent") == "true" {
		s.owed += n.Size
	} else {
		now := time.Now().UTC()
		n.TrashedAt = &now
		s.nodes["trash:"+n.ID] = n
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) restore(w http.ResponseWriter, _ *http.Request, n *node) {
	delete(s.nodes, "trash:"+n.ID)
	n.TrashedAt = nil
	s.nodes[n.Path] = n
	reply(w, http.StatusCreated, n)
}
