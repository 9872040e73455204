package clienttest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"time"
)

// EnableBatches enables or disables batches and streams of files (docs/formats/batch.md). A new
// server supports neither.
func (s *Server) EnableBatches(able bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = nil
	if able {
		s.batches = map[string]map[int]line{}
	}
}

// IgnorePreferences makes the server ignore "Prefer: return=minimal", as an older server does.
func (s *Server) IgnorePreferences() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verbose = true
}

// RefuseItems makes the server call refuse for each batch item; a status other than 0 refuses the
// item.
func (s *Server) RefuseItems(refuse func(path string) (status int, code string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// CountBatchItems returns the number of received batch items with an operation; "" counts all.
func (s *Server) CountBatchItems(op string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.items {
		if op == "" || o == op {
			n++
		}
	}
	return n
}

// line is the answer to a batch item.
type line struct {
	N       *int            `json:"n,omitempty"`
	Status  int             `json:"status"`
	Node    *node           `json:"node,omitempty"`
	Rev     int64           `json:"rev,omitempty"`
	Size    *int64          `json:"size,omitempty"`
	Problem json.RawMessage `json:"problem,omitempty"`
}

// batchItem is a batch item as the API encodes it.
type batchItem struct {
	N                  int
	Op, Path, Conflict string
	Size               int64
	Parents            bool
	Mtime              time.Time
	Digests            map[string]string
}

// batchRoutes registers the batch routes unless batches are switched off.
func (s *Server) batchRoutes(mux *http.ServeMux) {
	if s.batches == nil {
		return
	}
	b := batches{s}
	mux.HandleFunc("POST /api/v1/batch", b.batch)
	mux.HandleFunc("POST /api/v1/batch/contents", b.contents)
}

// batches implements the batch endpoints.
type batches struct{ *Server }

// batch executes a batch, item by item. Items answered before under the same idempotency key are
// not executed again.
func (s batches) batch(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if s.batches[key] == nil {
		s.batches[key] = map[int]line{}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	in := bufio.NewReader(r.Body)
	for {
		raw, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var item batchItem
		_ = json.Unmarshal(raw, &item) // what does not fit stays zero
		var content []byte
		if item.Op == "put" {
			content = make([]byte, item.Size)
			_, _ = io.ReadFull(in, content)
		}
		answer, done := s.batches[key][item.N]
		if !done {
			answer = s.item(item, content)
			answer.N = &item.N
			s.batches[key][item.N] = answer
		}
		_ = json.NewEncoder(w).Encode(answer) // as reply
	}
	_ = json.NewEncoder(w).Encode(line{Status: http.StatusOK})
}

// item executes one item of a batch and returns its answer line, a node or a problem. content is
// the file's content, which a claim takes from the contents that the server knows. The caller holds
// s.mu.
func (s batches) item(item batchItem, content []byte) line {
	s.items = append(s.items, item.Op)
	got := httptest.NewRecorder()
	p := item.Path
	if s.refuse != nil {
		if status, code := s.refuse(p); status != 0 {
			replyProblem(got, status, code, nil)
			return line{Status: got.Code, Problem: got.Body.Bytes()}
		}
	}
	if item.Op == "claim" {
		var there bool
		if content, there = s.findContent(item.Digests["blake3"]); !there {
			replyProblem(got, http.StatusNotFound, "not-found", map[string]any{"field": "digests"})
			return line{Status: got.Code, Problem: got.Body.Bytes()}
		}
	}
	if item.Op == "folder" {
		if p = s.targetPath(got, p, "fail", item.Parents); p != "" {
			s.nodes[p] = &node{ID: newID(), Path: p, Name: path.Base(p), Type: "folder"}
		}
	} else if p = s.targetPath(got, p, item.Conflict, item.Parents); p != "" {
		s.store(p, content, item.Mtime)
	}
	if p == "" {
		return line{Status: got.Code, Problem: got.Body.Bytes()}
	}
	return line{Status: http.StatusCreated, Node: s.nodes[p]}
}

// findContent returns the content with a digest. there reports whether a file has it.
func (s batches) findContent(sum string) (content []byte, there bool) {
	for _, n := range s.nodes {
		if n.Type == "file" && n.Digests["blake3"] == sum {
			return n.content, true
		}
	}
	return nil, false
}

// contents replies with the files that the body names, each a line and its bytes, and a final line.
func (s batches) contents(w http.ResponseWriter, r *http.Request) {
	var in struct{ Nodes []string }
	decode(r, &in)
	w.Header().Set("Content-Type", "application/vnd.smartdrive.batch")
	out := json.NewEncoder(w)
	short := r.Header.Get("Prefer") == "return=minimal" && !s.verbose
	for i, id := range in.Nodes {
		var content []byte
		l := line{N: &i, Status: http.StatusNotFound, Problem: json.RawMessage(`{"code":"not-found"}`)}
		for _, n := range s.nodes {
			if n.ID == id {
				l, content = line{N: &i, Status: http.StatusOK, Node: n, Size: &n.Size}, n.content
				if short {
					l.Node, l.Rev = nil, n.Rev
				}
			}
		}
		_ = out.Encode(l) // as reply
		_, _ = w.Write(content)
	}
	_ = out.Encode(line{Status: http.StatusOK})
}
