package clienttest

import (
	"maps"
	"net/http"
	"slices"
)

// linkRoutes registers creating, listing and deleting shares and collect links. The links
// themselves do not work.
func (s *Server) linkRoutes(mux *http.ServeMux) {
	for _, kind := range []string{"shares", "collects"} {
		at := "/api/v1/" + kind
		mux.HandleFunc("POST "+at, func(w http.ResponseWriter, r *http.Request) { s.makeLink(w, r, kind) })
		mux.HandleFunc("GET "+at, func(w http.ResponseWriter, r *http.Request) { s.listLinks(w, r, kind) })
		mux.HandleFunc("DELETE "+at+"/{id}", func(w http.ResponseWriter, r *http.Request) {
			before := len(s.links)
			s.links = slices.DeleteFunc(s.links, func(l map[string]any) bool { return l["id"] == r.PathValue("id") })
			if len(s.links) == before {
				replyProblem(w, http.StatusNotFound, "not-found", nil)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
}

// makeLink creates a link of a kind, shares or collects, from the request's members.
func (s *Server) makeLink(w http.ResponseWriter, r *http.Request, kind string) {
	in := map[string]any{}
	decode(r, &in)
	id := newID()
	made := map[string]any{"id": id, "token": "t" + id, "url": s.URL() + "/" + kind[:1] + "/t" + id, "kind": kind, "state": "open"}
	for _, name := range []string{"node", "folder"} {
		for _, n := range s.nodes {
			if n.ID == in[name] {
				made[name] = map[string]any{"id": n.ID, "name": n.Name, "type": n.Type, "size": n.Size}
			}
		}
		delete(in, name)
	}
	if in["code"] == "auto" {
		in["code"] = "k7m2p9"
	}
	if in["expires_in"] != nil {
		made["expires_at"] = "2030-01-01T00:00:00.000Z"
	}
	maps.Copy(made, in)
	s.links = append([]map[string]any{made}, s.links...)
	reply(w, http.StatusCreated, made)
}

// listLinks replies with the links of a kind, newest first, optionally only those of a node.
func (s *Server) listLinks(w http.ResponseWriter, r *http.Request, kind string) {
	items := []map[string]any{}
	for _, l := range s.links {
		node, _ := l["node"].(map[string]any)
		if of := r.URL.Query().Get("node"); l["kind"] == kind && (of == "" || node["id"] == of) {
			items = append(items, l)
		}
	}
	reply(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil})
}
