package clienttest

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// export is an export that becomes sealed when it is first read.
type export struct {
	view   map[string]any
	zip    []byte
	errors []map[string]any
	jobs   []map[string]any
}

// exportRoutes registers exports of one folder or of a CSV list of paths, schedules, and jobs,
// which become done when listed.
func (s *Server) exportRoutes(mux *http.ServeMux) {
	const at = "/api/v1/exports"
	mux.HandleFunc("POST "+at, s.makeExport)
	mux.HandleFunc("POST "+at+"/manifest", s.makeExportOf)
	mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) {
		items := []map[string]any{}
		for _, x := range slices.Backward(s.exports) {
			items = append(items, x.view)
		}
		reply(w, http.StatusOK, map[string]any{"items": items, "next_cursor": nil})
	})
	one := func(pattern string, do func(w http.ResponseWriter, r *http.Request, x *export)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			for _, x := range s.exports {
				if x.view["id"] == r.PathValue("id") {
					do(w, r, x)
					return
				}
			}
			replyProblem(w, http.StatusNotFound, "not-found", nil)
		})
	}
	list := func(items func(x *export) []map[string]any) func(http.ResponseWriter, *http.Request, *export) {
		return func(w http.ResponseWriter, _ *http.Request, x *export) {
			reply(w, http.StatusOK, map[string]any{"items": append([]map[string]any{}, items(x)...), "next_cursor": nil})
		}
	}
	one("GET "+at+"/{id}", func(w http.ResponseWriter, _ *http.Request, x *export) {
		if x.view["state"] == "pending" {
			x.view["state"], x.view["size"], x.view["etag"] = "sealed", len(x.zip), `"`+DigestOf(x.zip)+`"`
		}
		reply(w, http.StatusOK, x.view)
	})
	one("DELETE "+at+"/{id}", func(w http.ResponseWriter, _ *http.Request, x *export) {
		x.view["state"] = "cancelled"
		w.WriteHeader(http.StatusNoContent)
	})
	one("GET "+at+"/{id}/errors", list(func(x *export) []map[string]any { return x.errors }))
	one("GET "+at+"/{id}/content", func(w http.ResponseWriter, r *http.Request, x *export) {
		w.Header().Set("ETag", x.view["etag"].(string))
		http.ServeContent(w, r, "x.zip", time.Time{}, bytes.NewReader(x.zip))
	})
	one("POST "+at+"/{id}/supplement", s.supplementExport)
	one("POST "+at+"/{id}/files", s.saveExport)
	one("GET "+at+"/{id}/files", list(func(x *export) []map[string]any {
		for _, j := range x.jobs {
			j["state"], j["sent"] = "done", len(x.zip)
		}
		return x.jobs
	}))
	s.scheduleRoutes(mux)
}

// addExport creates an export of files, with failures for the missing ones, and replies with it.
func (s *Server) addExport(w http.ResponseWriter, name string, revision int, files map[string][]byte, missing []map[string]any) {
	var raw bytes.Buffer
	z := zip.NewWriter(&raw)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		f, _ := z.Create(name + "/" + file) // to memory
		_, _ = f.Write(files[file])
	}
	_ = z.Close()
	x := &export{zip: raw.Bytes(), errors: missing, view: map[string]any{
		"id": newID(), "name": name, "state": "pending", "total": len(files) + len(missing), "collected": len(files), "failed": len(missing),
		"revision": revision, "size": 0, "etag": "",
	}}
	s.exports = append(s.exports, x)
	reply(w, http.StatusCreated, x.view)
}

// makeExport creates an export of a folder's files, filtered by extension, or replies not-found.
func (s *Server) makeExport(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Folder, Name string
		Filter       struct{ Ext []string }
	}
	decode(r, &in)
	for _, folder := range s.nodes {
		if folder.ID != in.Folder {
			continue
		}
		files := map[string][]byte{}
		for at, n := range s.nodes {
			below, is := strings.CutPrefix(at, folder.Path+"/")
			if is && n.Type == "file" && (len(in.Filter.Ext) == 0 || slices.Contains(in.Filter.Ext, strings.TrimPrefix(path.Ext(at), "."))) {
				files[below] = n.content
			}
		}
		s.addExport(w, folder.Name, 1, files, nil)
		return
	}
	replyProblem(w, http.StatusNotFound, "not-found", nil)
}

// makeExportOf creates an export of a CSV list with the columns id and path. Missing paths become
// its errors.
func (s *Server) makeExportOf(w http.ResponseWriter, r *http.Request) {
	rows, err := csv.NewReader(bytes.NewReader(bodyOf(r))).ReadAll()
	if err != nil || len(rows) < 2 || !slices.Equal(rows[0], []string{"id", "path"}) {
		replyProblem(w, http.StatusBadRequest, "bad-request", nil)
		return
	}
	files, missing := map[string][]byte{}, []map[string]any{}
	for i, row := range rows[1:] {
		if n := s.nodes[row[1]]; n != nil {
			files[path.Base(row[1])] = n.content
			continue
		}
		missing = append(missing, map[string]any{"n": i + 1, "id": row[0], "path": row[1], "reason": "missing"})
	}
	s.addExport(w, r.URL.Query().Get("name"), 1, files, missing)
}

// supplementExport creates the next revision from the items' paths. An export without errors is
// refused with wrong-state.
func (s *Server) supplementExport(w http.ResponseWriter, r *http.Request, x *export) {
	var in struct {
		Mode  string
		Items []struct{ Path string }
	}
	decode(r, &in)
	if len(x.errors) == 0 || in.Mode != "alone" && in.Mode != "complete" {
		replyProblem(w, http.StatusConflict, "wrong-state", nil)
		return
	}
	files := map[string][]byte{}
	for _, it := range in.Items {
		if n := s.nodes[it.Path]; n != nil {
			files[path.Base(it.Path)] = n.content
		}
	}
	s.addExport(w, x.view["name"].(string), x.view["revision"].(int)+1, files, nil)
}

// saveExport adds a pending job that writes the zip into a folder or the bucket.
func (s *Server) saveExport(w http.ResponseWriter, r *http.Request, x *export) {
	var in struct {
		Folder, Name string
		Bucket       bool
	}
	decode(r, &in)
	j := map[string]any{"id": newID(), "export": x.view["id"], "name": in.Name, "state": "pending", "sent": 0}
	if in.Name == "" {
		j["name"] = fmt.Sprint(x.view["name"], ".zip")
	}
	if j["folder"] = in.Folder; in.Bucket {
		delete(j, "folder")
		j["object"] = fmt.Sprint("acc/", x.view["id"], "/", j["name"])
	}
	x.jobs = append([]map[string]any{j}, x.jobs...)
	reply(w, http.StatusCreated, j)
}

// scheduleRoutes registers the routes of export schedules.
func (s *Server) scheduleRoutes(mux *http.ServeMux) {
	const at = "/api/v1/export-schedules"
	mux.HandleFunc("POST "+at, func(w http.ResponseWriter, r *http.Request) {
		made := map[string]any{}
		decode(r, &made)
		made["id"], made["month"], made["due_at"] = newID(), "2030-01", "2030-02-01T02:00:00.000Z"
		if made["name"] == nil {
			made["name"] = "docs"
		}
		s.schedules = append(s.schedules, made)
		reply(w, http.StatusCreated, made)
	})
	mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"items": append([]map[string]any{}, s.schedules...), "next_cursor": nil})
	})
	mux.HandleFunc("DELETE "+at+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		before := len(s.schedules)
		s.schedules = slices.DeleteFunc(s.schedules, func(m map[string]any) bool { return m["id"] == r.PathValue("id") })
		if len(s.schedules) == before {
			replyProblem(w, http.StatusNotFound, "not-found", nil)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
