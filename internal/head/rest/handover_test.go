package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// TestHandoverMovesFiles hands the files of a user who leaves to a colleague, and checks the access
// of a third user who shared files with the first.
func TestHandoverMovesFiles(t *testing.T) {
	t.Parallel()
	var started []drive.OperationID
	s := newStackOf(t, uploadtest.Options{}, files.Options{Batch: 4, OnStart: func(id drive.OperationID) { started = append(started, id) }})
	ann, bob, eve := s.newUser(t, "ann", 1000), s.newUser(t, "bob", 12), s.newUser(t, "eve", 0)
	root := ann.admin(t)
	id := func(u user) string {
		return u.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	}
	annID, bobID := id(ann), id(bob)
	ann.mkdir(t, "/Plans/2027").json(t, http.StatusCreated)
	file := ann.send(t, "PUT", "/files/Plans/2027/a.txt", []byte("hello")).json(t, http.StatusCreated)
	for i := range 4 {
		ann.send(t, "PUT", fmt.Sprintf("/files/Plans/%d.txt", i), []byte("three")).json(t, http.StatusCreated)
	}
	ann.give(t, file["parent_id"], "eve", "editor")
	visitor, _ := ann.shareOf(t, file["id"].(string), nil)
	visitor.send(t, "GET", "", nil).json(t, http.StatusOK)
	token, _ := ann.collectInto(t, file["parent_id"].(string), nil)
	ann.post(t, "/uploads", map[string]any{"path": "/b.bin", "size": 500}).json(t, http.StatusCreated)
	path := "/admin/users/" + annID + "/handover"

	// Only administrators may hand over, and only to an existing user with enough quota.
	ann.post(t, path, map[string]any{"to_user": bobID}).problem(t, drive.Forbidden, nil)
	root.get(t, path).problem(t, drive.NotFound, nil)
	root.post(t, path, map[string]any{}).problem(t, drive.BadRequest, map[string]any{"field": "to_user"})
	root.post(t, path, map[string]any{"to_user": annID}).problem(t, drive.BadRequest, map[string]any{"field": "to_user"})
	root.post(t, path, map[string]any{"to_user": drive.NewID[drive.UserID]()}).problem(t, drive.BadRequest, map[string]any{"field": "to_user"})
	root.post(t, path, map[string]any{"to_user": bobID}).problem(t, drive.Quota, map[string]any{"needed": 25.0, "available": 12.0})
	if got := ann.get(t, "/me"); got.StatusCode != http.StatusOK {
		t.Fatalf("refused, and ann is signed out: %d", got.StatusCode)
	}
	root.send(t, "PATCH", "/admin/users/"+bobID, `{"total":1000}`).json(t, http.StatusOK)

	first := root.post(t, path, map[string]any{"to_user": bobID}).json(t, http.StatusCreated)
	again := root.post(t, path, map[string]any{"to_user": bobID}).json(t, http.StatusCreated)
	if first["id"] != again["id"] || len(started) != 1 {
		t.Errorf("begun twice: %v, %v, started %v", first["id"], again["id"], started)
	}
	root.post(t, path, map[string]any{"to_user": id(eve)}).problem(t, drive.WrongState, map[string]any{"state": "handing-over"})
	root.send(t, "PATCH", "/admin/users/"+id(eve), `{"total":5000}`).json(t, http.StatusOK)
	root.post(t, "/admin/users/"+bobID+"/handover", map[string]any{"to_user": id(eve)}).problem(t, drive.WrongState, map[string]any{"state": "handing-over"})
	root.post(t, "/admin/users/"+id(eve)+"/handover", map[string]any{"to_user": annID}).problem(t, drive.BadRequest, map[string]any{"field": "to_user"}) // who is disabled
	for _, who := range []string{annID, bobID} {
		root.send(t, "DELETE", "/admin/users/"+who, nil).problem(t, drive.WrongState, map[string]any{"state": "handing-over"})
	}
	if got := ann.get(t, "/me"); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("ann is still there: %d", got.StatusCode)
	}
	visitor.send(t, "GET", "", nil).problem(t, drive.NotFound, nil)
	if got := s.do(t, request{method: "GET", path: "/api/v1/public/collects/" + token}); got.StatusCode != http.StatusNotFound {
		t.Errorf("the collect link still opens: %d", got.StatusCode)
	}
	if err := s.files.Operations.Run(t.Context(), started[0]); err != nil {
		t.Fatal(err)
	}
	if end := root.get(t, path).json(t, http.StatusOK); end["state"] != "done" || end["to"] != "bob" || end["done"] != 7.0 || end["total"] != 7.0 {
		t.Errorf("ended as %v", end)
	}
	if got := bob.get(t, "/nodes/"+file["id"].(string)).json(t, http.StatusOK)["path"]; got != "/Files of ann/Plans/2027/a.txt" {
		t.Errorf("the file is at %v", got)
	}
	if used := bob.get(t, "/me").json(t, http.StatusOK)["usage"].(map[string]any)["used"]; used != 25.0 {
		t.Errorf("bob has %v bytes", used)
	}
	if l := root.get(t, "/admin/users/"+annID+"/ledger").json(t, http.StatusOK); l["finished"] != 0.0 || l["reserved"] != 0.0 || l["unfinished"] != 0.0 {
		t.Errorf("ann is charged %v", l)
	}
	if got := eve.get(t, "/nodes/"+file["id"].(string)+"/content"); string(got.body) != "hello" {
		t.Errorf("eve reads %d", got.StatusCode)
	}
	eve.send(t, "PUT", "/nodes/"+file["id"].(string)+"/content", []byte("changed"))
	root.send(t, "DELETE", "/admin/users/"+annID, nil).json(t, http.StatusAccepted)

	// Bob leaves, too: all of it goes to a space.
	team := eve.space(t, "Team")
	root.post(t, "/admin/users/"+bobID+"/handover", map[string]any{"to_space": team["id"], "folder": "Bob"}).json(t, http.StatusCreated)
	if err := s.files.Operations.Run(t.Context(), started[1]); err != nil {
		t.Fatal(err)
	}
	if got := eve.get(t, "/nodes/"+file["id"].(string)).json(t, http.StatusOK)["path"]; got != "//Team/Bob/Files of ann/Plans/2027/a.txt" {
		t.Errorf("the file is at %v", got)
	}
}

// If an upload is sealing when its owner leaves, the handover waits for it and moves its file too.
func TestAHandoverWaitsForWhatIsBeingSealed(t *testing.T) {
	t.Parallel()
	s := newStackOf(t, uploadtest.Options{}, files.Options{Batch: 4})
	ann, bob := s.newUser(t, "ann", 1000), s.newUser(t, "bob", 1000)
	root := ann.admin(t)
	id := func(u user) string {
		return u.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	}
	annID, bobID := id(ann), id(bob)
	ann.send(t, "PUT", "/files/a.txt", []byte("hello")).json(t, http.StatusCreated)
	up := ann.post(t, "/uploads", map[string]any{"path": "/b.bin", "size": 500}).json(t, http.StatusCreated)["id"]
	state := func(state string) {
		t.Helper()
		err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE uploads SET state = ? WHERE id = ?", state, up)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	state("sealing")
	path := "/admin/users/" + annID + "/handover"
	op := root.post(t, path, map[string]any{"to_user": bobID}).json(t, http.StatusCreated)["id"].(string)
	operation, err := drive.ParseID[drive.OperationID](op)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.files.Operations.Run(t.Context(), operation); !drive.IsKind(err, drive.InProgress) {
		t.Errorf("beside an upload that is being sealed: %v", err)
	}
	if now := root.get(t, path).json(t, http.StatusOK); now["state"] != "running" {
		t.Errorf("it is %v", now)
	}
	bob.get(t, "/nodes?path=/Files%20of%20ann/a.txt").json(t, http.StatusOK) // what could go has gone
	state("active")
	root.post(t, path, map[string]any{"to_user": bobID}).json(t, http.StatusCreated) // cancels it, as the first one would have
	if err := s.files.Operations.Run(t.Context(), operation); err != nil {
		t.Error(err)
	}
	if end := root.get(t, path).json(t, http.StatusOK); end["state"] != "done" {
		t.Errorf("ended as %v", end)
	}
}

// late is a body that yields nothing before its gate is open.
type late struct {
	began chan<- struct{}
	gate  <-chan struct{}
	io.Reader
}

func (l *late) Read(p []byte) (int, error) {
	if l.began != nil {
		close(l.began)
		l.began = nil
		<-l.gate
	}
	return l.Reader.Read(p)
}

// A request that was accepted before its user was disabled, and whose body ends after the handover,
// creates nothing in the old drive, where nobody would find it. A user who is enabled again has a
// drive.
func TestHandoverLeavesNoLateFiles(t *testing.T) {
	t.Parallel()
	var started []drive.OperationID
	s := newStackOf(t, uploadtest.Options{}, files.Options{OnStart: func(id drive.OperationID) { started = append(started, id) }})
	ann, bob := s.newUser(t, "ann", 1000), s.newUser(t, "bob", 1000)
	root := ann.admin(t)
	ann.put(t, "/a.txt", []byte("hello"))
	gate := make(chan struct{})
	answers := make(chan response)
	bodies := []string{"much too late", ""}
	for i, body := range bodies {
		began := make(chan struct{})
		go func() {
			answers <- ann.send(t, "PUT", fmt.Sprintf("/files/folder/late%d.txt?parents=true", i), &late{began, gate, strings.NewReader(body)})
		}()
		<-began
	}
	path := "/admin/users/" + ann.id + "/handover"
	root.post(t, path, map[string]any{"to_user": bob.id}).json(t, http.StatusCreated)
	if err := s.files.Operations.Run(t.Context(), started[0]); err != nil {
		t.Fatal(err)
	}
	if end := root.get(t, path).json(t, http.StatusOK); end["state"] != "done" {
		t.Fatalf("ended as %v", end)
	}
	close(gate)
	for range bodies {
		(<-answers).problem(t, drive.NotFound, nil)
	}
	if l := root.get(t, "/admin/users/"+ann.id+"/ledger").json(t, http.StatusOK); l["finished"] != 0.0 {
		t.Errorf("ann is charged %v", l)
	}
	root.send(t, "PATCH", "/admin/users/"+ann.id, `{"state":"active"}`).json(t, http.StatusOK)
	ann = s.login(t, "ann")
	ann.put(t, "/b.txt", []byte("back again"))
	if got := ann.get(t, "/nodes?path=/").json(t, http.StatusOK); got["path"] != "/" {
		t.Errorf("ann's drive is %v", got)
	}
}

// Documents stay with the account that received them and no longer name files, which have another
// owner.
func TestDocumentsOfAUserWhoLeaves(t *testing.T) {
	t.Parallel()
	var started []drive.OperationID
	s := newStackOf(t, uploadtest.Options{}, files.Options{Batch: 3, OnStart: func(id drive.OperationID) { started = append(started, id) }})
	ann, bob := s.newUser(t, "ann", drive.GiB), s.newUser(t, "bob", drive.GiB)
	root := ann.admin(t)
	ann.takeIn(t, invoicetest.New(1), invoicetest.New(2), invoicetest.New(3), invoicetest.New(4))
	other := invoicetest.New(1)
	other.BuyerReference = "another one"
	ann.takeIn(t, other)
	root.post(t, "/admin/users/"+ann.id+"/handover", map[string]any{"to_user": bob.id}).json(t, http.StatusCreated)
	if err := s.files.Operations.Run(t.Context(), started[0]); err != nil {
		t.Fatal(err)
	}
	var all, named, astray int
	err := s.DB.QueryRow(t.Context(), `SELECT COUNT(*), COUNT(d.file_id) + COUNT(d.pdf_id) + COUNT(c.file_id) + COUNT(c.pdf_id), COUNT(c.id)
		FROM documents d LEFT JOIN document_conflicts c ON c.document_id = d.id`).Scan(&all, &named, &astray)
	if err != nil || all != 4 || named != 0 || astray != 1 {
		t.Errorf("%d documents, of which %d are in conflict, name %d files, %v", all, astray, named, err)
	}
	if got := len(bob.get(t, "/documents").items(t)); got != 0 {
		t.Errorf("bob has %d documents", got)
	}
}
