package rest_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Each changing request is decided by what its transaction reads. The competitor runs after the
// request has read its preconditions and before its transaction.
func TestRequestComparesInItsTransaction(t *testing.T) {
	t.Parallel()
	type call struct{ method, path, body, header, value string }
	over := call{"PATCH", "/nodes/{x}", `{"name":"f","conflict":"replace"}`, "", ""}
	deletes := call{"DELETE", "/nodes/{f}", "", "", ""}
	deletesFolder := call{"DELETE", "/nodes/{d}", "", "", ""}
	renames := call{"PATCH", "/nodes/{f}", `{"name":"h"}`, "", ""}
	restores := call{"POST", "/nodes/{t}/restore", `{}`, "", ""}
	takes := call{"PATCH", "/nodes/{x}", `{"name":"g"}`, "", ""}
	const batchPath = "/batch"
	item := func(line string) call { return call{"POST", batchPath, line + "\n", "Content-Type", batchType} }
	putItem := func(more string) call { return item(`{"op":"put","size":4,` + more + "}\nmine") }
	known := make([]byte, drive.MiB) // the smallest content that can be claimed
	claimItem := func(more string) call {
		return item(fmt.Sprintf(`{"op":"claim","size":%d,"digests":{digests},%s}`, len(known), more))
	}
	for name, r := range map[string]struct {
		request, competitor call
		want                []int
		left                string
	}{
		"put, If-Match, moved over":                {call{"PUT", "/files/f", "mine", "If-Match", "{tag}"}, over, []int{409, 412}, "f=old"},
		"put, If-Match, deleted":                   {call{"PUT", "/files/f", "mine", "If-Match", "{tag}"}, deletes, []int{409, 412}, "x=old"},
		"put, If-Match, renamed":                   {call{"PUT", "/files/f", "mine", "If-Match", "{tag}"}, renames, []int{409, 412}, "h=one x=old"},
		"put, If-None-Match, name taken":           {call{"PUT", "/files/g", "mine", "If-None-Match", "*"}, takes, []int{409, 412}, "f=one g=old"},
		"put, conflict fail, name taken":           {call{"PUT", "/files/g?conflict=fail", "mine", "", ""}, takes, []int{409}, "f=one g=old"},
		"put into a folder, deleted":               {call{"PUT", "/files/d/g", "mine", "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"patch, If-Match, renamed":                 {call{"PATCH", "/nodes/{f}", `{"name":"g"}`, "If-Match", "{rev}"}, renames, []int{409, 412}, "h=one x=old"},
		"patch, If-Match, deleted":                 {call{"PATCH", "/nodes/{f}", `{"name":"g"}`, "If-Match", "{rev}"}, deletes, []int{404, 409, 412}, "x=old"},
		"patch, conflict fail, name taken":         {call{"PATCH", "/nodes/{f}", `{"name":"g","conflict":"fail"}`, "", ""}, takes, []int{409}, "f=one g=old"},
		"patch into a folder, deleted":             {call{"PATCH", "/nodes/{f}", `{"parent":"{d}"}`, "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"delete, If-Match, renamed":                {call{"DELETE", "/nodes/{f}", "", "If-Match", "{rev}"}, renames, []int{409, 412}, "h=one x=old"},
		"folder in a folder, deleted":              {call{"POST", "/nodes", `{"parent":"{d}","name":"new","type":"folder"}`, "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"upload into a folder, deleted":            {call{"POST", "/uploads", `{"parent":"{d}","name":"new","size":5}`, "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"link, deleted":                            {call{"POST", "/shares", `{"node":"{f}"}`, "", ""}, deletes, []int{404, 409}, "x=old"},
		"collect link, deleted":                    {call{"POST", "/collects", `{"folder":"{d}","title":"t"}`, "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"restore, name taken":                      {call{"POST", "/nodes/{t}/restore", `{"conflict":"fail"}`, "", ""}, call{"PATCH", "/nodes/{x}", `{"name":"t"}`, "", ""}, []int{409}, "f=one t=old"},
		"batch put, if_match, moved over":          {putItem(`"path":"/f","if_match":{quoted}`), over, []int{409, 412}, "f=old"},
		"batch put, if_match, deleted":             {putItem(`"path":"/f","if_match":{quoted}`), deletes, []int{409, 412}, "x=old"},
		"batch put, if_match, renamed":             {putItem(`"path":"/f","if_match":{quoted}`), renames, []int{409, 412}, "h=one x=old"},
		"batch put, if_none_match, name taken":     {putItem(`"path":"/g","if_none_match":"*"`), takes, []int{409, 412}, "f=one g=old"},
		"batch put, conflict fail, name taken":     {putItem(`"path":"/g","conflict":"fail"`), takes, []int{409}, "f=one g=old"},
		"batch put into a folder, deleted":         {putItem(`"path":"/d/g"`), deletesFolder, []int{404, 409}, "f=one x=old"},
		"batch claim, if_match, moved over":        {claimItem(`"path":"/f","if_match":{quoted}`), over, []int{409, 412}, "f=old"},
		"batch claim, if_none_match, name taken":   {claimItem(`"path":"/g","if_none_match":"*"`), takes, []int{409, 412}, "f=one g=old"},
		"batch claim, conflict fail, name taken":   {claimItem(`"path":"/g","conflict":"fail"`), takes, []int{409}, "f=one g=old"},
		"batch claim into a folder, deleted":       {claimItem(`"path":"/d/g"`), deletesFolder, []int{404, 409}, "f=one x=old"},
		"batch folder, name taken":                 {item(`{"op":"folder","path":"/g"}`), takes, []int{409}, "f=one g=old"},
		"batch folder in a folder, deleted":        {item(`{"op":"folder","path":"/d/new"}`), deletesFolder, []int{404, 409}, "f=one x=old"},
		"batch move, rev, renamed":                 {item(`{"op":"move","id":"{f}","rev":{number},"name":"g"}`), renames, []int{409, 412}, "h=one x=old"},
		"batch move, deleted":                      {item(`{"op":"move","id":"{f}","name":"g"}`), deletes, []int{404, 409}, "x=old"},
		"batch move, conflict fail, name taken":    {item(`{"op":"move","path":"/f","to":"/g","conflict":"fail"}`), takes, []int{409}, "f=one g=old"},
		"batch move by path, renamed":              {item(`{"op":"move","path":"/f","to":"/g"}`), renames, []int{404, 409, 412}, "h=one x=old"},
		"batch move into a folder, deleted":        {item(`{"op":"move","path":"/f","to":"/d/g"}`), deletesFolder, []int{404, 409}, "f=one x=old"},
		"batch trash, rev, renamed":                {item(`{"op":"trash","id":"{f}","rev":{number}}`), renames, []int{409, 412}, "h=one x=old"},
		"batch trash by path, renamed":             {item(`{"op":"trash","path":"/f"}`), renames, []int{404, 409, 412}, "h=one x=old"},
		"batch trash by path, other file moved in": {item(`{"op":"trash","path":"/f","rev":{number}}`), over, []int{404, 409, 412}, "f=old"},
		"delete for good, restored":                {call{"DELETE", "/nodes/{t}?permanent=true&trashed_at={when}", "", "", ""}, restores, []int{412}, "f=one t=gone x=old"},
		"operation delete, restored":               {call{"POST", "/operations", `{"kind":"delete","nodes":["{t}"],"trashed_until":"{when}"}`, "", ""}, restores, []int{201}, "f=one t=gone x=old"},
		"operation delete all, restored":           {call{"POST", "/operations", `{"kind":"delete","all":{"trash":true},"trashed_until":"{when}"}`, "", ""}, restores, []int{201}, "f=one t=gone x=old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, uploadtest.Options{})
			u := s.newUser(t, "ann", 0)
			f, x, trashed := u.put(t, "/f", []byte("one")), u.put(t, "/x", []byte("old")), u.put(t, "/t", []byte("gone"))
			d := u.mkdir(t, "/d").json(t, http.StatusCreated)
			digests := "{}"
			if strings.Contains(r.request.body, "{digests}") {
				digests = asJSON(t, u.put(t, "/known", known)["digests"])
			}
			trash := func(n map[string]any) string {
				at := "/nodes/" + n["id"].(string)
				u.send(t, "DELETE", at, nil)
				return u.get(t, at).json(t, http.StatusOK)["trashed_at"].(string)
			}
			when := trash(trashed)
			got := u.get(t, "/nodes/"+f["id"].(string)+"/content")
			rev := fmt.Sprintf("%q", fmt.Sprint(f["rev"]))
			fill := strings.NewReplacer("{f}", f["id"].(string), "{x}", x["id"].(string), "{d}", d["id"].(string), "{t}", trashed["id"].(string),
				"{tag}", got.Header.Get("ETag"), "{quoted}", fmt.Sprintf("%q", got.Header.Get("ETag")), "{digests}", digests, "{number}", fmt.Sprint(f["rev"]),
				"{rev}", rev, "{when}", when)
			send := func(c call) response {
				var body any
				if body = []byte(c.body); strings.HasPrefix(c.body, "{") {
					body = fill.Replace(c.body)
				}
				if c.path == batchPath {
					body = []byte(fill.Replace(c.body))
				}
				if c.body == "" {
					body = nil
				}
				if c.header == "" {
					return u.send(t, c.method, fill.Replace(c.path), body)
				}
				return u.send(t, c.method, fill.Replace(c.path), body, c.header, fill.Replace(c.value))
			}
			gate := sqldbtest.NewGate(s.DB)
			gate.Intercept(0, func() {
				if got := send(r.competitor); got.StatusCode >= 300 {
					t.Errorf("the competitor is answered %d: %s", got.StatusCode, got.body)
				}
			})
			answer := send(r.request)
			if _, met := gate.Open(); !met {
				t.Error("no transaction came to the gate")
			}
			if r.request.path == "/operations" {
				u.end(t, answer.json(t, http.StatusCreated))
			}
			status := answer.StatusCode
			if r.request.path == batchPath && status == http.StatusOK {
				items, _ := splitAnswers(t, bytes.NewReader(answer.body))
				status = int(items[0]["status"].(float64))
			}
			if !slices.Contains(r.want, status) {
				t.Errorf("answered %d, want one of %d: %s", status, r.want, answer.body)
			}
			var left []string
			for _, name := range []string{"f", "g", "h", "t", "x"} {
				if a := u.get(t, "/nodes?path=/"+name); a.StatusCode == http.StatusOK {
					left = append(left, name+"="+string(u.get(t, "/nodes/"+a.json(t, http.StatusOK)["id"].(string)+"/content").body))
				}
			}
			if all := strings.Join(left, " "); all != r.left {
				t.Errorf("there is %q, want %q", all, r.left)
			}
			u.checkLedger(t)
		})
	}
}

// A competitor moves another file to the name of an upload, before each transaction of the request
// that ends the upload. Neither file is lost: one of them gets another name, or is refused.
func TestAnUploadAndAMoveToItsNameKeepBothFiles(t *testing.T) {
	t.Parallel()
	tusOf := func(conflict string) func(*stack, testing.TB, user) *http.Request {
		return func(_ *stack, t testing.TB, u user) *http.Request {
			r := u.sends(t, "POST", "/tus/", sentText)
			r.Header.Set("Upload-Length", fmt.Sprint(len(sentText)))
			r.Header.Set("Upload-Metadata", "path "+base64.StdEncoding.EncodeToString([]byte("/in/f"))+",conflict "+base64.StdEncoding.EncodeToString([]byte(conflict)))
			return r
		}
	}
	for name, way := range map[string]struct {
		sender bool
		begin  func(*stack, testing.TB, user) *http.Request
	}{
		"tus, rename": {false, tusOf("rename")}, "tus, fail": {false, tusOf("fail")},
		"file of a sender": {true, aFile}, "last PATCH of tus of a sender": {true, patchOfTus(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for skip, met := 0, true; met; skip++ {
				s := newStack(t, uploadtest.Options{})
				u := s.newUser(t, "ann", 0)
				folder := u.folder(t, "/in")
				other := u.put(t, "/x", []byte("old"))["id"].(string)
				by := u
				if way.sender {
					token, _ := u.collectInto(t, folder, nil)
					by = s.sender(t, token, "bob")
				}
				r := way.begin(s, t, by)
				gate := sqldbtest.NewGate(s.DB)
				var moved response
				gate.Intercept(skip, func() {
					moved = u.send(t, "PATCH", "/nodes/"+other, map[string]any{"parent": folder, "name": "f", "conflict": "fail"})
				})
				answer := s.interrupted(r, func() {})
				if _, met = gate.Open(); !met {
					if skip == 0 {
						t.Error("no transaction came to the gate")
					}
					break
				}
				moved.json(t, http.StatusOK)
				kept := 0
				for _, path := range []string{"/x", "/in/f", "/in/f (2)"} {
					if a := u.get(t, "/nodes?path="+url.QueryEscape(path)); a.StatusCode == http.StatusOK {
						kept++
					}
				}
				if taken := answer.StatusCode == http.StatusConflict; taken && kept != 1 || !taken && (answer.StatusCode >= 300 || kept != 2) {
					t.Errorf("after %d transactions it is answered %s, and there are %d files", skip, answer, kept)
				}
				if got := u.get(t, "/nodes/"+other+"/content"); string(got.body) != "old" {
					t.Errorf("after %d transactions the moved file is %s", skip, got)
				}
				u.checkLedger(t)
			}
		})
	}
}
