package rest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// TestPartsNeedNoDatabase counts the calls of the driver while parts come, from the token to the
// reply (P5).
func TestPartsNeedNoDatabase(t *testing.T) {
	t.Parallel()
	var calls sqldbtest.Counter
	s := newStack(t, uploadtest.Options{DB: sqldb.Options{Connector: calls.Connector}})
	u := s.newUser(t, "ann", 0)
	data := pattern(5*partSize + 1)
	id := u.post(t, "/uploads", map[string]any{"path": "/x", "size": len(data)}).json(t, http.StatusCreated)["id"].(string)
	before := calls.Total()
	u.sendParts(t, id, data)
	u.sendParts(t, id, data) // again: compared
	if n := calls.Total() - before; n != 0 {
		t.Errorf("12 parts made %d calls", n)
	}
	if before == 0 {
		t.Error("nothing is counted")
	}
}

// TestPartsOfSeveralSessionsNeedADigest: no client can add a part to another client's file
// unnoticed.
func TestPartsOfSeveralSessionsNeedADigest(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	phone := s.login(t, "ann")
	data := pattern(partSize + 5)
	id := u.post(t, "/uploads", map[string]any{"path": "/x", "size": len(data)}).json(t, http.StatusCreated)["id"].(string)
	u.send(t, "PUT", "/uploads/"+id+"/parts/0", data[:partSize])
	phone.send(t, "PUT", "/uploads/"+id+"/parts/1", data[partSize:])
	u.post(t, "/uploads/"+id+"/complete", nil).problem(t, drive.DigestRequired, nil)
	wrong := map[string]any{"digests": map[string]any{"blake3": strings.Repeat("0", 64)}}
	sum := blake3.Sum256(data)
	u.post(t, "/uploads/"+id+"/complete", wrong).problem(t, drive.DigestMismatch, map[string]any{"algorithm": "blake3", "computed": fmt.Sprintf("%x", sum)})
	right := map[string]any{"digests": map[string]any{"blake3": fmt.Sprintf("%x", sum)}}
	u.post(t, "/uploads/"+id+"/complete", right).json(t, http.StatusCreated)
}

// TestCutRequestsLeaveNothing cuts real connections in the middle of bodies of known and of unknown
// length.
func TestCutRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	srv := httptest.NewServer(s.server)
	defer srv.Close()
	id := u.post(t, "/uploads", map[string]any{"path": "/up", "size": 1000}).json(t, http.StatusCreated)["id"].(string)
	chunk := "1f4\r\n" + strings.Repeat("x", 500) + "\r\n"
	for path, body := range map[string]string{
		"/files/known":                "Content-Length: 1000\r\n\r\n" + strings.Repeat("x", 500),
		"/files/chunked":              "Transfer-Encoding: chunked\r\n\r\n" + chunk,
		"/files/large":                fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 3*partSize, strings.Repeat("x", 3*partSize/2)),
		"/uploads/" + id + "/parts/0": "Content-Length: 1000\r\n\r\n" + strings.Repeat("x", 999),
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "PUT /api/v1%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s", path, u.token, body)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: a body that was cut gets %d", path, resp.StatusCode)
		}
		resp.Body.Close()
		conn.Close()
	}
	if left := u.get(t, "/nodes/root/children").items(t); len(left) != 0 {
		t.Errorf("the files are %v", left)
	}
	if left := u.get(t, "/uploads/"+id).json(t, http.StatusOK)["received"].([]any); len(left) != 0 {
		t.Errorf("the part is there: %v", left)
	}
	if ups := u.get(t, "/uploads").items(t); len(ups) != 1 {
		t.Errorf("there are %d uploads", len(ups))
	}
	if got := u.get(t, "/me").json(t, http.StatusOK)["usage"].(map[string]any)["used"]; got != 0.0 {
		t.Errorf("used is %v", got)
	}
}

func TestPartsAreListedByPages(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	data := pattern(4*partSize + 1)
	id := u.post(t, "/uploads", map[string]any{"path": "/x", "size": len(data)}).json(t, http.StatusCreated)["id"].(string)
	u.sendParts(t, id, data)
	var seen bytes.Buffer
	for at := "/uploads/" + id + "/parts?limit=2"; ; {
		page := u.get(t, at).json(t, http.StatusOK)
		for _, p := range page["items"].([]any) {
			fmt.Fprint(&seen, p.(map[string]any)["n"])
		}
		if page["next_cursor"] == nil {
			break
		}
		seen.WriteString("|")
		at = "/uploads/" + id + "/parts?limit=2&cursor=" + page["next_cursor"].(string)
	}
	if seen.String() != "01|23|4" {
		t.Errorf("the pages are %s", seen.String())
	}
}
