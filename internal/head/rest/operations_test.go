package rest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/bulk"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// at returns the id of the node at a path.
func (u user) at(t testing.TB, path string) string {
	t.Helper()
	return u.get(t, "/nodes?path="+url.QueryEscape(path)).json(t, http.StatusOK)["id"].(string)
}

func (u user) names(t *testing.T, list string) (names []string) {
	t.Helper()
	for _, n := range u.get(t, list).items(t) {
		names = append(names, n["name"].(string))
	}
	return names
}

// end runs an operation to its end and returns it.
func (u user) end(t *testing.T, op map[string]any) map[string]any {
	t.Helper()
	id, err := drive.ParseID[drive.OperationID](op["id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if p, err := u.bulk.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		} else if p == bulk.Ended {
			break
		}
	}
	return u.get(t, "/operations/"+id.String()).json(t, http.StatusOK)
}

func TestOperationOnManyNodes(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	var ids []string
	for i := range 5 {
		ids = append(ids, u.put(t, fmt.Sprint("/dir/f", i), []byte("x"))["id"].(string))
	}
	in := map[string]any{"kind": "trash", "nodes": ids}
	made := u.post(t, "/operations", in, "Idempotency-Key", "k")
	op := made.json(t, http.StatusCreated)
	if op["state"] != "running" || op["total"] != 5.0 || !strings.HasSuffix(made.Header.Get("Location"), "/operations/"+op["id"].(string)) {
		t.Errorf("made %s", made)
	}
	if again := u.post(t, "/operations", in, "Idempotency-Key", "k").json(t, http.StatusCreated); again["id"] != op["id"] {
		t.Errorf("asked for again, it is %v", again)
	}
	if op = u.end(t, op); op["state"] != "done" || op["done"] != 5.0 || op["undoable"] != true {
		t.Errorf("it ended as %v", op)
	}
	if got := u.names(t, "/nodes/root/children"); !slices.Equal(got, []string{"dir"}) || len(u.get(t, "/trash").items(t)) != 5 {
		t.Errorf("there are %v", got)
	}
	undo := u.post(t, "/operations/"+op["id"].(string)+"/undo", nil, "Idempotency-Key", "u").json(t, http.StatusCreated)
	if u.end(t, undo); len(u.get(t, "/trash").items(t)) != 0 || undo["undoes"] != op["id"] {
		t.Errorf("undone by %v, there are %v", undo, u.names(t, "/trash"))
	}
	folder := u.at(t, "/dir")
	moved := u.post(t, "/operations", map[string]any{
		"kind": "move", "all": map[string]any{"folder": folder}, "except": ids[3:], "parent": "root", "conflict": "rename",
	}).json(t, http.StatusCreated)
	if moved["state"] != "done" { // three are done at once
		t.Errorf("moved %v", moved)
	}
	if got := u.names(t, "/nodes/root/children"); !slices.Equal(got, []string{"dir", "f0", "f1", "f2"}) {
		t.Errorf("moved, there are %v", got)
	}
	u.put(t, "/dir/f0", []byte("y"))
	failed := u.post(t, "/operations", map[string]any{"kind": "move", "nodes": ids[:2], "parent": folder}).json(t, http.StatusCreated)
	list := u.get(t, "/operations/"+failed["id"].(string)+"/failures", "Accept-Language", "zh-CN").items(t)
	if len(list) != 1 || list[0]["code"] != "name-taken" || list[0]["path"] != "/f0" || list[0]["title"] == "" {
		t.Errorf("failures: %v of %v", list, failed)
	}
	u.send(t, "DELETE", "/nodes/"+u.at(t, "/dir/f0"), nil)
	again := u.post(t, "/operations/"+failed["id"].(string)+"/retry", nil).json(t, http.StatusOK)
	if again["failed"] != 0.0 || again["state"] != "done" {
		t.Errorf("tried again: %v", again)
	}
	if stopped := u.post(t, "/operations/"+failed["id"].(string)+"/cancel", nil).json(t, http.StatusOK); stopped["state"] != "done" {
		t.Errorf("what has ended was stopped: %v", stopped)
	}
	if all := u.get(t, "/operations?limit=2").items(t); len(all) != 2 || all[0]["id"] != failed["id"] {
		t.Errorf("listed are %v", all)
	}
	shared := u.post(t, "/shares", map[string]any{"node": folder}).json(t, http.StatusCreated)["id"]
	u.post(t, "/operations", map[string]any{"kind": "unshare", "shares": []any{shared}}).json(t, http.StatusCreated)
	if left := u.get(t, "/shares").items(t); len(left) != 0 {
		t.Errorf("shares left: %v", left)
	}
}

func TestInvalidOperationsAreRefused(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	file := u.put(t, "/f", []byte("x"))["id"].(string)
	one := []string{file}
	for _, in := range []map[string]any{
		{"kind": "burn", "nodes": one},
		{"kind": "trash"},
		{"kind": "trash", "nodes": []string{}},
		{"kind": "trash", "nodes": []string{"x"}},
		{"kind": "trash", "nodes": []int{1}},
		{"kind": "trash", "nodes": file},
		{"kind": "trash", "shares": one},
		{"kind": "unshare", "nodes": one},
		{"kind": "trash", "nodes": one, "all": map[string]any{"folder": "root"}},
		{"kind": "restore", "all": map[string]any{"folder": "root", "trash": true}},
		{"kind": "trash", "all": map[string]any{"shares": true}},
		{"kind": "move", "nodes": one},
		{"kind": "trash", "nodes": one, "parent": "root"},
		{"kind": "trash", "nodes": one, "conflict": "fail"},
		{"kind": "trash", "all": map[string]any{"else": true}},
	} {
		u.post(t, "/operations", in).problem(t, drive.BadRequest, nil)
	}
	u.post(t, "/operations", map[string]any{"kind": "move", "nodes": one, "parent": file}).problem(t, drive.ParentGone, nil)
	op := u.post(t, "/operations", map[string]any{"kind": "delete", "nodes": one}).json(t, http.StatusCreated)["id"].(string)
	u.post(t, "/operations/"+op+"/undo", nil).problem(t, drive.WrongState, nil)
	u.get(t, "/operations/"+op+"/failures?cursor=x").problem(t, drive.CursorInvalid, nil)
	u.get(t, "/operations?cursor=x").problem(t, drive.CursorInvalid, nil)
}

// A request of the maximum size is accepted, and a larger one is refused.
func TestAHundredThousandIDs(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	ids := make([]string, bulk.MaxItems+1)
	for i := range ids {
		ids[i] = drive.NewID[drive.NodeID]().String()
	}
	op := u.post(t, "/operations", map[string]any{"kind": "trash", "nodes": ids[1:]}).json(t, http.StatusCreated)
	if op["total"] != float64(bulk.MaxItems) {
		t.Errorf("made %v", op)
	}
	u.post(t, "/operations", map[string]any{"kind": "trash", "nodes": ids}).problem(t, drive.TooLarge, map[string]any{"limit": bulk.MaxItems, "reason": "picked"})
	u.post(t, "/archives", map[string]any{"nodes": ids}).problem(t, drive.TooLarge, map[string]any{"limit": 1 << 20})
}

// TestZeroTrashTimeIsRefused refuses a condition that would count as absent: a client that echoes
// the missing trash time of a live node must not delete it.
func TestZeroTrashTimeIsRefused(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	id := u.put(t, "/x", []byte("x"))["id"].(string)
	const zero = "0001-01-01T00:00:00Z"
	u.send(t, "DELETE", "/nodes/"+id+"?permanent=true&trashed_at="+zero, nil).problem(t, drive.BadRequest, map[string]any{"field": "trashed_at"})
	u.post(t, "/operations", map[string]any{"kind": "delete", "nodes": []string{id}, "trashed_until": zero}).problem(t, drive.BadRequest, map[string]any{"field": "trashed_until"})
	u.get(t, "/nodes/"+id).json(t, http.StatusOK)
}
