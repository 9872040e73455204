package rest

import (
	"net/http"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/usecase/upload"
)

// Resumable is a head that takes over from the API those PUTs of a file that may be resumed.
type Resumable interface {
	Takes(r *http.Request) bool
	http.Handler
}

const filesPath = "/files/{path...}"

// resumable is the handler of a route, behind the head that may take its requests over.
func (a *API) resumable(rt *route, own http.Handler) http.Handler {
	if rt.path != filesPath || a.Resumable == nil {
		return own
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Resumable.Takes(r) {
			a.Resumable.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// ReadPut reads what a PUT of a file says, for a head that stores it in another way.
func (a *API) ReadPut(r *http.Request) (upload.PutFile, error) {
	c := a.putCall(nil, r)
	if err := c.parseQuery(); err != nil {
		return upload.PutFile{}, err
	}
	return a.uploads.readPut(r.Context(), c)
}

// AnswerPut answers as a PUT of a file does.
func (a *API) AnswerPut(w http.ResponseWriter, r *http.Request, file tree.Node, created bool) error {
	c := a.putCall(w, r)
	who, err := a.front.whoIs(r, write)
	if err != nil {
		return err
	}
	view, err := a.uploads.files.ViewFor(r.Context(), a.uploads.db, who, file)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", quoted(opaqueTag(view.Digests[string(digest.Blake3)])))
	rep := reply{status: http.StatusOK, body: view}
	if created {
		rep.status = http.StatusCreated
	}
	return c.send(r.Context(), rep)
}

func (a *API) putCall(w http.ResponseWriter, r *http.Request) *call {
	for i := range a.routes {
		if a.routes[i].path == filesPath {
			return &call{front: &a.front, w: w, r: r, route: &a.routes[i]}
		}
	}
	panic("rest: no route for whole files")
}
