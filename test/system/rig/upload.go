package rig

import (
	"fmt"
	"maps"
	"net/http"
	"testing"

	"example.org/smartdrive/test/history"
)

// MiB is the smallest part size.
const MiB = 1 << 20

// Upload is an unfinished upload and the user who sends it.
type Upload struct {
	User
	ID       string
	PartSize int64 // bytes
	Content  history.Content
}

// Begin begins an upload with parts of 1 MiB; more adds members to the request.
func (u User) Begin(t testing.TB, path string, c history.Content, more ...map[string]any) Upload {
	t.Helper()
	body := map[string]any{"path": path, "size": c.Size, "part_size": MiB, "parents": true}
	for _, m := range more {
		maps.Copy(body, m)
	}
	doc := u.Post(t, "/uploads", body).JSON(t, http.StatusCreated)
	return Upload{User: u, ID: doc["id"].(string), PartSize: int64(doc["part_size"].(float64)), Content: c}
}

// At returns the same upload through another server of the installation.
func (up Upload) At(s *Server) Upload {
	up.User = up.User.At(s)
	return up
}

func (up Upload) partPath(n int) string { return fmt.Sprintf("/uploads/%s/parts/%d", up.ID, n) }

// Part returns the bytes of part n.
func (up Upload) Part(n int) []byte { return up.Content.Bytes(int64(n)*up.PartSize, up.PartSize) }

// Send sends parts and fails the test unless they are accepted.
func (up Upload) Send(t testing.TB, parts ...int) {
	t.Helper()
	for _, n := range parts {
		up.SendPart(t, n).Is(t, http.StatusNoContent)
	}
}

// SendPart sends one part and returns the response, whatever its status.
func (up Upload) SendPart(t testing.TB, n int) Reply {
	t.Helper()
	return up.Do(t, http.MethodPut, up.partPath(n), up.Part(n))
}

// View returns the upload as its owner sees it.
func (up Upload) View(t testing.TB) map[string]any {
	t.Helper()
	return up.Get(t, "/uploads/"+up.ID).JSON(t, http.StatusOK)
}

// Complete completes the upload and returns the file's node.
func (up Upload) Complete(t testing.TB) map[string]any {
	t.Helper()
	r := up.Post(t, "/uploads/"+up.ID+"/complete", map[string]any{}).Is(t, http.StatusCreated, http.StatusOK)
	return r.JSON(t, r.StatusCode)["node"].(map[string]any)
}

// Cancel cancels the upload.
func (up Upload) Cancel(t testing.TB) {
	t.Helper()
	up.Do(t, http.MethodDelete, "/uploads/"+up.ID, nil).Is(t, http.StatusNoContent)
}
