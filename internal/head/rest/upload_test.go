package rest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

const partSize = 2 << 20 // bytes, as uploadtest sets it

func pattern(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>9)
	}
	return data
}

// sendParts sends all parts of data, the last one first.
func (u user) sendParts(t testing.TB, id string, data []byte) {
	t.Helper()
	for n := (len(data) - 1) / partSize; n >= 0; n-- {
		part := data[n*partSize : min(len(data), (n+1)*partSize)]
		if got := u.send(t, "PUT", fmt.Sprintf("/uploads/%s/parts/%d", id, n), part); got.StatusCode != http.StatusNoContent {
			t.Fatalf("part %d: %s", n, got)
		}
	}
}

func TestAFileIsSentInPartsAndReadBack(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	data := pattern(2*partSize + 1000)
	begun := u.post(t, "/uploads", map[string]any{"path": "/a/b.bin", "size": len(data), "parents": true})
	up := begun.json(t, http.StatusCreated)
	id := up["id"].(string)
	if got := begun.Header.Get("Location"); got != "/api/v1/uploads/"+id {
		t.Errorf("Location is %q", got)
	}
	u.post(t, "/uploads/"+id+"/complete", "{}").problem(t, drive.PartsMissing, map[string]any{"missing": []any{0, 1, 2}})
	u.sendParts(t, id, data)
	done := u.post(t, "/uploads/"+id+"/complete", nil)
	node := done.json(t, http.StatusCreated)["node"].(map[string]any)
	if got := done.Header.Get("Location"); got != "/api/v1/nodes/"+node["id"].(string) {
		t.Errorf("Location is %q", got)
	}
	if again := u.post(t, "/uploads/"+id+"/complete", nil).json(t, http.StatusOK); again["state"] != "done" {
		t.Errorf("completed again it is %v", again)
	}
	if at := u.get(t, "/nodes?path=/a/b.bin").json(t, http.StatusOK); at["id"] != node["id"] || at["size"] != float64(len(data)) {
		t.Errorf("the node is %v", at)
	}
	if got := u.get(t, "/nodes/"+node["id"].(string)+"/content"); got.StatusCode != 200 || !bytes.Equal(got.body, data) {
		t.Errorf("read back: %d, %d bytes", got.StatusCode, len(got.body))
	}
}

func TestAWholeFileIsPutAndReplaced(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	for _, size := range []int{0, 1, partSize, partSize + 1} {
		for _, known := range []bool{true, false} {
			data := pattern(size)
			var body any = data
			if !known {
				body = struct{ io.Reader }{bytes.NewReader(data)}
			}
			path := fmt.Sprintf("/files/%d-%t", size, known)
			first := u.send(t, "PUT", path, body)
			node := first.json(t, http.StatusCreated)
			if !known {
				body = struct{ io.Reader }{bytes.NewReader(data)}
			}
			second := u.send(t, "PUT", path, body, "If-Match", first.Header.Get("ETag"))
			if again := second.json(t, http.StatusOK); again["id"] != node["id"] {
				t.Errorf("%s became another node: %v", path, again)
			}
			if got := u.get(t, "/nodes/"+node["id"].(string)+"/content"); !bytes.Equal(got.body, data) {
				t.Errorf("%s: %d bytes came back", path, len(got.body))
			}
		}
	}
}
