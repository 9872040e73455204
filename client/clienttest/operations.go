package clienttest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
)

// operation is work on many nodes. The server finishes it at once.
type operation struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	State  string `json:"state"`
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
	Total  int    `json:"total"`

	failures []map[string]any
}

// operationRoutes registers the routes of bulk operations, which are done before the reply.
func (s *Server) operationRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /api/v1/operations", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Kind, Parent, Conflict string
			Nodes                  []string
		}
		decode(r, &in)
		op := &operation{ID: newID(), Kind: in.Kind, State: "done", Total: len(in.Nodes), Done: len(in.Nodes)}
		s.operations = append(s.operations, op)
		for _, id := range in.Nodes {
			if code := s.operate(r.Context(), in.Kind, id, map[string]string{"parent": in.Parent, "conflict": in.Conflict}); code != "" {
				op.Failed++
				op.failures = append(op.failures, map[string]any{"id": id, "code": code, "title": code})
			}
		}
		reply(w, http.StatusCreated, op)
	})
	mux.HandleFunc("GET /api/v1/operations/{id}/failures", func(w http.ResponseWriter, r *http.Request) {
		for _, op := range s.operations {
			if op.ID == r.PathValue("id") {
				reply(w, http.StatusOK, map[string]any{"items": op.failures, "next_cursor": nil})
				return
			}
		}
		replyProblem(w, http.StatusNotFound, "not-found", nil)
	})
}

// operate applies an operation to one node by calling the handler of the single request. It returns
// the problem's code, "" on success.
func (s *Server) operate(ctx context.Context, kind, id string, in map[string]string) (code string) {
	var n *node
	for _, one := range s.nodes {
		if one.ID == id {
			n = one
		}
	}
	if n == nil {
		return "not-found"
	}
	raw, _ := json.Marshal(in) // strings never fail
	target := "/"
	if kind == "delete" {
		target = "/?permanent=true"
	}
	r, w := httptest.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(raw)), httptest.NewRecorder()
	switch kind {
	case "move":
		s.move(w, r, n)
	case "restore":
		s.restore(w, r, n)
	default:
		s.trash(w, r, n)
	}
	var said struct{ Code string }
	if w.Code >= http.StatusBadRequest {
		_ = json.Unmarshal(w.Body.Bytes(), &said) // a problem document
	}
	return said.Code
}
