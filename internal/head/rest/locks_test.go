package rest_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// spot is a place where "from/x" is to replace "to/x", which another user has locked.
type spot struct {
	user

	dir             string // of all of it
	there, in       string // the id of to/x, and of the folder it is in
	source, another string // the ids of from/x and of another folder
}

func (p spot) batchOf(t *testing.T, parts ...any) string {
	t.Helper()
	answers, _ := p.batch(t, frames(t, parts...))
	return outcomes(answers)
}

// many does one item by an operation on many.
func (p spot) many(t *testing.T, kind, id string, to map[string]any) string {
	t.Helper()
	in := map[string]any{"kind": kind, "nodes": []string{id}}
	maps.Copy(in, to)
	made := p.post(t, "/operations", in)
	if made.StatusCode >= 300 {
		return made.String()
	}
	op := p.end(t, made.json(t, made.StatusCode))
	if op["failed"] == 0.0 {
		return "200"
	}
	return fmt.Sprint("423 ", p.get(t, "/operations/"+op["id"].(string)+"/failures"))
}

// waysAway lists all ways to replace, move or delete a node. keeps says that only the content
// changes.
var waysAway = map[string]struct {
	keeps, files bool // files: only of a file
	do           func(*testing.T, spot) string
}{
	"trash": {do: func(t *testing.T, p spot) string { return p.send(t, "DELETE", "/nodes/"+p.there, nil).String() }},
	"delete": {do: func(t *testing.T, p spot) string {
		return p.send(t, "DELETE", "/nodes/"+p.there+"?permanent=true", nil).String()
	}},
	"rename": {do: func(t *testing.T, p spot) string {
		return p.send(t, "PATCH", "/nodes/"+p.there, `{"name":"y"}`).String()
	}},
	"move": {do: func(t *testing.T, p spot) string {
		return p.send(t, "PATCH", "/nodes/"+p.there, over(p.another)).String()
	}},
	"move over": {do: func(t *testing.T, p spot) string { return p.send(t, "PATCH", "/nodes/"+p.source, over(p.in)).String() }},
	"touch":     {keeps: true, files: true, do: func(t *testing.T, p spot) string { return p.send(t, "PATCH", "/nodes/"+p.there, touched).String() }},
	"copy over": {keeps: true, do: func(t *testing.T, p spot) string { return p.post(t, "/nodes/"+p.source+"/copy", over(p.in)).String() }},
	"put over": {keeps: true, files: true, do: func(t *testing.T, p spot) string {
		return p.send(t, "PUT", "/files"+p.dir+"/to/x", []byte("new")).String()
	}},
	"version": {keeps: true, files: true, do: func(t *testing.T, p spot) string { return p.oldVersion(t).String() }},
	"restore over": {do: func(t *testing.T, p spot) string {
		p.trash(t, p.source)
		return p.post(t, "/nodes/"+p.source+"/restore", over(p.in)).String()
	}},
	"many trashed": {do: func(t *testing.T, p spot) string { return p.many(t, "trash", p.there, nil) }},
	"many deleted": {do: func(t *testing.T, p spot) string { return p.many(t, "delete", p.there, nil) }},
	"many moved": {do: func(t *testing.T, p spot) string {
		return p.many(t, "move", p.there, map[string]any{"parent": p.another})
	}},
	"many over":   {do: func(t *testing.T, p spot) string { return p.many(t, "move", p.source, over(p.in)) }},
	"copies over": {keeps: true, do: func(t *testing.T, p spot) string { return p.many(t, "copy", p.source, over(p.in)) }},
	"restored over": {do: func(t *testing.T, p spot) string {
		p.trash(t, p.source)
		return p.many(t, "restore", p.source, over(p.in))
	}},
	"batch: trash":  {do: func(t *testing.T, p spot) string { return p.batchOf(t, item{"op": "trash", "path": p.dir + "/to/x"}) }},
	"batch: by id":  {do: func(t *testing.T, p spot) string { return p.batchOf(t, item{"op": "trash", "id": p.there}) }},
	"batch: rename": {do: func(t *testing.T, p spot) string { return p.batchOf(t, item{"op": "move", "id": p.there, "name": "y"}) }},
	"batch: over": {do: func(t *testing.T, p spot) string {
		return p.batchOf(t, item{"op": "move", "id": p.source, "parent": p.in, "conflict": "replace"})
	}},
	"batch: put":     {keeps: true, files: true, do: func(t *testing.T, p spot) string { return p.batchPut(t) }},
	"folder trashed": {do: func(t *testing.T, p spot) string { return p.send(t, "DELETE", "/nodes/"+p.in, nil).String() }},
	"folder deleted": {do: func(t *testing.T, p spot) string {
		return p.send(t, "DELETE", "/nodes/"+p.in+"?permanent=true", nil).String()
	}},
}

const touched = `{"mtime":"2020-01-01T00:00:00Z"}`

func over(folder string) map[string]any {
	return map[string]any{"parent": folder, "conflict": "replace"}
}

func (p spot) trash(t *testing.T, id string) {
	t.Helper()
	if got := p.send(t, "DELETE", "/nodes/"+id, nil); got.StatusCode >= 300 {
		t.Fatalf("trash what comes back: %s", got)
	}
}

func (p spot) batchPut(t *testing.T) string {
	t.Helper()
	line, content := put(p.dir+"/to/x", []byte("new"), "conflict", "replace")
	return p.batchOf(t, line, content)
}

func (p spot) oldVersion(t *testing.T) response {
	t.Helper()
	all := p.get(t, "/nodes/"+p.there+"/versions").items(t)
	return p.post(t, "/nodes/"+p.there+"/versions/"+all[len(all)-1]["id"].(string)+"/restore", nil)
}

// A node that another user has locked, or that contains one, cannot be changed or moved by any
// route of its owner; a deleted node's locks end with it (D6).
func TestLocksCannotBeBypassed(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", drive.GiB)
	who := drive.Who{User: must[drive.UserID](t)(drive.ParseID[drive.UserID](ann.id))}
	account, err := s.Access.Home(t.Context(), s.DB, who.User)
	if err != nil {
		t.Fatal(err)
	}
	for name, way := range waysAway {
		for _, what := range []string{"/x", "/x/doc"} {
			if way.files && what != "/x" {
				continue
			}
			t.Run(name+what, func(t *testing.T) {
				dir := "/" + strings.NewReplacer(" ", "-", ":", "", "/", "-").Replace(name+what)
				locked := ann.put(t, dir+"/to"+what, []byte("0"))["id"].(string)
				if what == "/x" {
					ann.put(t, dir+"/to"+what, []byte("1"))
				}
				ann.put(t, dir+"/from"+what, []byte("2"))
				ann.put(t, dir+"/another/file", nil)
				p := spot{ann, dir, ann.at(t, dir+"/to/x"), ann.at(t, dir+"/to"), ann.at(t, dir+"/from/x"), ann.at(t, dir+"/another")}
				bobs := s.lockFor(t, account, locked, drive.UserID{})
				if got := way.do(t, p); !strings.HasPrefix(got, "423 ") || !strings.Contains(got, "locked") {
					t.Fatalf("beside a lock of somebody else: %s", got)
				}
				if got := ann.at(t, dir+"/to/x"); got != p.there {
					t.Fatalf("%s is there for %s", got, p.there)
				}
				err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return lock.Release(ctx, tx, bobs) })
				if err != nil {
					t.Fatal(err)
				}
				s.lockFor(t, account, locked, who.User)
				if got := way.do(t, p); !strings.HasPrefix(got, "20") {
					t.Fatalf("beside a lock of one's own: %s", got)
				}
				if name == "copy over" || name == "copies over" {
					way.keeps = what == "/x" // a folder goes to the trash
				}
				left, err := lock.At(t.Context(), s.DB, drive.TimeOf(s.Clock.Now()), must[drive.NodeID](t)(drive.ParseID[drive.NodeID](locked)))
				if err != nil || (len(left) > 0) != way.keeps {
					t.Errorf("there are %d locks left (%v)", len(left), err)
				}
			})
		}
	}
	s.CheckLedger(t, drive.Who{User: who.User, Account: account})
}

// A long copy fails and leaves nothing if its destination is locked in the meantime.
func TestLockDuringCopyWins(t *testing.T) {
	t.Parallel()
	s := newStackOf(t, uploadtest.Options{}, files.Options{Batch: 2, Direct: 1, OnStart: func(drive.OperationID) {}})
	ann := s.newUser(t, "ann", drive.GiB)
	account, err := s.Access.Home(t.Context(), s.DB, must[drive.UserID](t)(drive.ParseID[drive.UserID](ann.id)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		ann.put(t, fmt.Sprint("/from/x/", i), []byte("x"))
	}
	ann.put(t, "/to/beside", nil)
	op := ann.post(t, "/nodes/"+ann.at(t, "/from/x")+"/copy", over(ann.at(t, "/to"))).json(t, http.StatusAccepted)
	doc := ann.put(t, "/to/x/doc", []byte("of bob"))["id"].(string)
	s.lockFor(t, account, doc, drive.UserID{})
	if err := s.files.Operations.Run(t.Context(), must[drive.OperationID](t)(drive.ParseID[drive.OperationID](op["id"].(string)))); err != nil {
		t.Fatal(err)
	}
	if op = ann.get(t, "/operations/"+op["id"].(string)).json(t, http.StatusOK); op["state"] != "failed" || op["error"] != "locked" {
		t.Errorf("it ended as %v", op)
	}
	if got := ann.at(t, "/to/x/doc"); got != doc || len(ann.get(t, "/trash").items(t)) != 0 {
		t.Errorf("%s is there for %s", got, doc)
	}
	s.CheckLedger(t, drive.Who{Account: account})
}

// lockFor locks a node for an hour; zero stands for a new user who is an editor.
func (s *stack) lockFor(t *testing.T, account drive.AccountID, node string, by drive.UserID) drive.LockID {
	t.Helper()
	if by.IsZero() {
		by = s.Editor(t, account, must[drive.NodeID](t)(drive.ParseID[drive.NodeID](node)))
	}
	l := lock.Lock{Node: must[drive.NodeID](t)(drive.ParseID[drive.NodeID](node)), Account: account, User: by, Exclusive: true, Timeout: time.Hour}
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		l, err = lock.Rules{Now: s.Clock.Now}.Acquire(ctx, tx, l)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l.ID
}
