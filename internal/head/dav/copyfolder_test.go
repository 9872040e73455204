package dav_test

import (
	"net/http"
	"testing"

	"example.org/smartdrive/internal/head/dav/davtest"
)

// COPY of a folder with depth 0 copies its dead properties and none of its children, within a drive
// and from a shared folder.
func TestCopyOfAFolderAloneBringsItsProperties(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	withBob(t, s)
	const (
		set = `<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><colour xmlns="urn:x">red</colour></D:prop></D:set></D:propertyupdate>`
		get = `<D:propfind xmlns:D="DAV:"><D:prop><colour xmlns="urn:x"/></D:prop></D:propfind>`
	)
	s.Do(t, "MKCOL /dav/files/team/sub").Want(t, http.StatusCreated)
	for _, path := range []string{"team", "team/sub"} {
		s.Do(t, "PROPPATCH /dav/files/"+path, "", set).Want(t, http.StatusMultiStatus)
	}
	s.Do(t, "COPY /dav/files/team", "Depth: 0", "Destination: /dav/files/copy").Want(t, http.StatusCreated)
	s.Do(t, "PROPFIND /dav/files/copy", "Depth: 0", "", get).Want(t, http.StatusMultiStatus).Has(t, ">red</colour>")
	s.Do(t, "PROPFIND /dav/files/copy", "Depth: 1", "", get).Want(t, http.StatusMultiStatus).Lacks(t, "sub")
	s.Do(t, "COPY /dav/shared/team", davtest.AuthHeader("bob"), "Depth: 0", "Destination: /dav/files/bobs").Want(t, http.StatusCreated)
	s.Do(t, "PROPFIND /dav/files/bobs", davtest.AuthHeader("bob"), "Depth: 0", "", get).Want(t, http.StatusMultiStatus).Has(t, ">red</colour>")
}
