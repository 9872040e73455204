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

// node is a file or folder of the test server.
type node struct {
	ID             string            `json:"id"`
	Name           string            `json:"name"`
	Path           string            `json:"path"`
	Type           string            `json:"type"`
	Size           int64             `json:"size"`
	Mtime          time.Time         `json:"mtime"`
	Rev            int64             `json:"rev"`
	Digests        map[string]string `json:"digests"`
	TrashedAt      *time.Time        `json:"trashed_at"`
	content        []byte
	versions       int
	versionDigests []map[string]string // digests of all versions, oldest first
	starred        bool
}

// star sets or removes the star of a node.
func (n *node) star(w http.ResponseWriter, on bool) {
	n.starred = on
	w.WriteHeader(http.StatusNoContent)
}

// bodyOf returns the request body. It may be called once.
func bodyOf(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	return body
}

// decode decodes the request body into v; fields that do not fit stay zero.
func decode(r *http.Request, v any) { _ = json.Unmarshal(bodyOf(r), v) }

// DigestOf returns the BLAKE3 digest of content in hex.
func DigestOf(content []byte) string {
	sum := blake3.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// File returns the content at a path and the number of its versions; nil and 0 if there is none.
func (s *Server) File(path string) (content []byte, versions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[path]; n != nil && n.TrashedAt == nil {
		return n.content, n.versions
	}
	return nil, 0
}

// Paths returns the paths of all nodes, sorted; those in the trash begin with "trash:".
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.nodes))
}

// RedirectDownloads makes downloads redirect to the URL that elsewhere returns for the content.
func (s *Server) RedirectDownloads(elsewhere func(content []byte) (url string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeURL = elsewhere
}

// Store creates or replaces a file without a request.
func (s *Server) Store(path string, content []byte, mtime time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeParents(path)
	s.store(path, content, mtime)
}

// store creates the file at p with content, or adds a version to it, and returns it. The parent
// folder must exist. The caller holds s.mu.
func (s *Server) store(p string, content []byte, mtime time.Time) *node {
	n := s.nodes[p]
	if n == nil {
		n = &node{ID: newID(), Path: p, Name: path.Base(p), Type: "file"}
		s.nodes[p] = n
	}
	n.content, n.Size, n.Mtime = content, int64(len(content)), mtime.UTC().Truncate(time.Millisecond)
	n.Digests = map[string]string{"blake3": DigestOf(content)}
	n.versionDigests = append(n.versionDigests, n.Digests)
	n.versions++
	n.Rev++
	return n
}

// makeParents creates the missing folders above a path. The caller holds mu.
func (s *Server) makeParents(p string) {
	for dir := path.Dir(p); s.nodes[dir] == nil; dir = path.Dir(dir) {
		s.nodes[dir] = &node{ID: newID(), Path: dir, Name: path.Base(dir), Type: "folder"}
	}
}

// targetPath applies the conflict policy and returns the path to write to. It returns "" after
// replying with a problem.
func (s *Server) targetPath(w http.ResponseWriter, p, conflict string, parents bool) string {
	if s.nodes[path.Dir(p)] == nil {
		if !parents {
			replyProblem(w, http.StatusNotFound, "not-found", nil)
			return ""
		}
		s.makeParents(p)
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
	replyProblem(w, http.StatusConflict, "name-taken", nil)
	return ""
}

// nodeRoutes registers the routes of nodes, stars and the trash.
func (s *Server) nodeRoutes(mux *http.ServeMux) {
	mux.HandleFunc("PUT /api/v1/files/{path...}", s.putFile)
	mux.HandleFunc("GET /api/v1/nodes", s.nodeAt)
	mux.HandleFunc("POST /api/v1/nodes", s.makeFolder)
	mux.HandleFunc("GET /api/v1/nodes/{id}", s.withNode(func(w http.ResponseWriter, _ *http.Request, n *node) { reply(w, http.StatusOK, n) }))
	mux.HandleFunc("GET /api/v1/nodes/{id}/children", s.withNode(s.children))
	mux.HandleFunc("GET /api/v1/nodes/{id}/content", s.withNode(s.content))
	mux.HandleFunc("GET /api/v1/nodes/{id}/versions", s.withNode(showVersions))
	mux.HandleFunc("PATCH /api/v1/nodes/{id}", s.withNode(s.move))
	mux.HandleFunc("POST /api/v1/nodes/{id}/copy", s.withNode(s.copy))
	mux.HandleFunc("DELETE /api/v1/nodes/{id}", s.withNode(s.trash))
	mux.HandleFunc("POST /api/v1/nodes/{id}/restore", s.withNode(s.restore))
	mux.HandleFunc("PUT /api/v1/nodes/{id}/star", s.withNode(func(w http.ResponseWriter, _ *http.Request, n *node) { n.star(w, true) }))
	mux.HandleFunc("DELETE /api/v1/nodes/{id}/star", s.withNode(func(w http.ResponseWriter, _ *http.Request, n *node) { n.star(w, false) }))
	mux.HandleFunc("GET /api/v1/starred", func(w http.ResponseWriter, _ *http.Request) {
		s.replyNodes(w, func(n *node) bool { return n.starred && n.TrashedAt == nil })
	})
	mux.HandleFunc("GET /api/v1/recent", func(w http.ResponseWriter, _ *http.Request) {
		s.replyNodes(w, func(n *node) bool { return n.Type == "file" && n.TrashedAt == nil })
	})
	mux.HandleFunc("GET /api/v1/trash", func(w http.ResponseWriter, _ *http.Request) {
		s.replyNodes(w, func(n *node) bool { return n.TrashedAt != nil })
	})
}

// withNode looks up the node of a request before calling do; it replies 404 if there is none.
func (s *Server) withNode(do func(http.ResponseWriter, *http.Request, *node)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, n := range s.nodes {
			if n.ID == r.PathValue("id") {
				do(w, r, n)
				return
			}
		}
		replyProblem(w, http.StatusNotFound, "not-found", nil)
	}
}

// putFile stores the whole body as a file, unless targetPath refuses the path.
func (s *Server) putFile(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := s.targetPath(w, "/"+r.PathValue("path"), q.Get("conflict"), q.Get("parents") == "true")
	if p == "" {
		return
	}
	ms, _ := strconv.ParseInt(r.Header.Get("X-Mtime"), 10, 64) // absent is the epoch
	reply(w, http.StatusCreated, s.store(p, bodyOf(r), time.UnixMilli(ms)))
}

// nodeAt replies with the live node at a path, or not-found.
func (s *Server) nodeAt(w http.ResponseWriter, r *http.Request) {
	if n := s.nodes[r.URL.Query().Get("path")]; n != nil && n.TrashedAt == nil {
		reply(w, http.StatusOK, n)
		return
	}
	replyProblem(w, http.StatusNotFound, "not-found", nil)
}

// makeFolder creates a folder; an existing one fails.
func (s *Server) makeFolder(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Path    string
		Parents bool
	}
	decode(r, &in)
	if in.Path = s.targetPath(w, in.Path, "fail", in.Parents); in.Path == "" {
		return
	}
	s.nodes[in.Path] = &node{ID: newID(), Path: in.Path, Name: path.Base(in.Path), Type: "folder"}
	reply(w, http.StatusCreated, s.nodes[in.Path])
}

// children replies with the live nodes directly in dir.
func (s *Server) children(w http.ResponseWriter, _ *http.Request, dir *node) {
	s.replyNodes(w, func(n *node) bool { return n != dir && n.TrashedAt == nil && path.Dir(n.Path) == dir.Path })
}

// replyNodes replies with the nodes that which accepts, sorted by path.
func (s *Server) replyNodes(w http.ResponseWriter, which func(*node) bool) {
	items := []*node{}
	for _, p := range slices.Sorted(maps.Keys(s.nodes)) {
		if which(s.nodes[p]) {
			items = append(items, s.nodes[p])
		}
	}
	reply(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil})
}

// content replies with the node's bytes, or redirects to the store if storeURL is set.
func (s *Server) content(w http.ResponseWriter, r *http.Request, n *node) {
	w.Header().Set("ETag", `"b3-`+n.Digests["blake3"]+`"`)
	if s.storeURL != nil {
		w.Header().Set("Location", s.storeURL(n.content))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", n.Mtime, bytes.NewReader(n.content))
}

// showVersions replies with the node's versions, newest first.
func showVersions(w http.ResponseWriter, _ *http.Request, n *node) {
	items := []map[string]any{}
	for i, digests := range slices.Backward(n.versionDigests) {
		items = append(items, map[string]any{"id": strconv.Itoa(i), "digests": digests, "current": i == len(n.versionDigests)-1})
	}
	reply(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil})
}

// relocate returns the target path of a move or copy, "" after replying with a problem. Only files
// and empty folders can be moved.
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
	return s.targetPath(w, path.Join(dir, name), in.Conflict, false)
}

// move moves the node to the place that the body names, unless relocate refuses it.
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

// copy stores a copy of the node at the place that the body names, unless relocate refuses it.
func (s *Server) copy(w http.ResponseWriter, r *http.Request, n *node) {
	if to := s.relocate(w, r, n); to != "" {
		reply(w, http.StatusCreated, s.store(to, n.content, n.Mtime))
	}
}

// trash deletes the node's descendants and moves the node to the trash; with permanent=true it
// deletes it and adds its size to owed.
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

// restore puts a node back at its path.
func (s *Server) restore(w http.ResponseWriter, _ *http.Request, n *node) {
	delete(s.nodes, "trash:"+n.ID)
	n.TrashedAt = nil
	s.nodes[n.Path] = n
	reply(w, http.StatusCreated, n)
}
