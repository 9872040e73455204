package rest

import (
	"net/http"
	"strings"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/usecase/upload"
)

// Resumable is a head that handles resumable PUTs of files in place of the API. Takes reports
// whether it handles r.
type Resumable interface {
	Accepts(r *http.Request) bool
	http.Handler
}

const (
	// filesPath is a route path below prefix: /files/{path...}.
	filesPath = "/files/{path...}"
	// filesQueryPath is a route path below prefix: /files, with the file's path in the query.
	filesQueryPath = "/files"
)

// resumable returns a handler that passes requests which API.Resumable takes to it, and others to
// own.
func (a *API) resumable(rt *route, own http.Handler) http.Handler {
	if rt.path != filesPath && rt.path != filesQueryPath || a.Resumable == nil {
		return own
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Resumable.Accepts(r) {
			a.Resumable.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// ReadPut parses the path, query and headers of a PUT of a file, for a head that stores the body
// itself.
func (a *API) ReadPut(r *http.Request) (upload.PutFile, error) {
	c := a.putCall(nil, r)
	if err := c.parseQuery(); err != nil {
		return upload.PutFile{}, err
	}
	return a.uploads.readPut(r.Context(), c)
}

// AnswerPut writes the response to a PUT of a file, with 201 if created, else 200. On an error it
// has written nothing.
func (a *API) AnswerPut(w http.ResponseWriter, r *http.Request, file tree.Node, created bool) error {
	c := a.putCall(w, r)
	who, err := a.front.identify(r, write)
	if err != nil {
		return err
	}
	view, err := a.uploads.files.ViewFor(r.Context(), a.uploads.db, who, file)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", quoted(opaqueTag(view.Digests[string(digest.Blake3)])))
	rep := reply{status: http.StatusOK, body: showNode(view)}
	if created {
		rep.status = http.StatusCreated
	}
	return c.send(r.Context(), rep)
}

// putCall returns a call of the route for whole files, for a request that another head received. It
// does not authenticate. It panics if there is no such route.
func (a *API) putCall(w http.ResponseWriter, r *http.Request) *call {
	path := filesQueryPath
	if strings.Contains(r.URL.EscapedPath(), prefix+"/files/") {
		path = filesPath
	}
	for i := range a.routes {
		if a.routes[i].path == path {
			return &call{front: &a.front, w: w, r: r, route: &a.routes[i]}
		}
	}
	panic("rest: no route for whole files")
}
