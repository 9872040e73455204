package rest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// Each changing request is decided by what its transaction reads. The competitor runs after the
// request has read its preconditions and before its transaction.
func TestARequestIsDecidedByWhatItsTransactionFinds(t *testing.T) {
	t.Parallel()
	type call struct{ method, path, body, header, value string }
	over := call{"PATCH", "/nodes/{x}", `{"name":"f","conflict":"replace"}`, "", ""}
	deletes := call{"DELETE", "/nodes/{f}", "", "", ""}
	deletesFolder := call{"DELETE", "/nodes/{d}", "", "", ""}
	renames := call{"PATCH", "/nodes/{f}", `{"name":"h"}`, "", ""}
	restores := call{"POST", "/nodes/{t}/restore", `{}`, "", ""}
	takes := call{"PATCH", "/nodes/{x}", `{"name":"g"}`, "", ""}
	for name, r := range map[string]struct {
		request, competitor call
		want                []int
		left                string
	}{
		"put, If-Match, moved over":        {call{"PUT", "/files/f", "mine", "If-Match", "{tag}"}, over, []int{409, 412}, "f=old"},
		"put, If-Match, deleted":           {call{"PUT", "/files/f", "mine", "If-Match", "{tag}"}, deletes, []int{409, 412}, "x=old"},
		"put, If-Match, renamed":           {call{"PUT", "/files/f", "mine", "If-Match", "{tag}"}, renames, []int{409, 412}, "h=one x=old"},
		"put, If-None-Match, name taken":   {call{"PUT", "/files/g", "mine", "If-None-Match", "*"}, takes, []int{409, 412}, "f=one g=old"},
		"put, conflict fail, name taken":   {call{"PUT", "/files/g?conflict=fail", "mine", "", ""}, takes, []int{409}, "f=one g=old"},
		"put into a folder, deleted":       {call{"PUT", "/files/d/g", "mine", "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"patch, If-Match, renamed":         {call{"PATCH", "/nodes/{f}", `{"name":"g"}`, "If-Match", "{rev}"}, renames, []int{409, 412}, "h=one x=old"},
		"patch, If-Match, deleted":         {call{"PATCH", "/nodes/{f}", `{"name":"g"}`, "If-Match", "{rev}"}, deletes, []int{404, 409, 412}, "x=old"},
		"patch, conflict fail, name taken": {call{"PATCH", "/nodes/{f}", `{"name":"g","conflict":"fail"}`, "", ""}, takes, []int{409}, "f=one g=old"},
		"patch into a folder, deleted":     {call{"PATCH", "/nodes/{f}", `{"parent":"{d}"}`, "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"delete, If-Match, renamed":        {call{"DELETE", "/nodes/{f}", "", "If-Match", "{rev}"}, renames, []int{409, 412}, "h=one x=old"},
		"folder in a folder, deleted":      {call{"POST", "/nodes", `{"parent":"{d}","name":"new","type":"folder"}`, "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"upload into a folder, deleted":    {call{"POST", "/uploads", `{"parent":"{d}","name":"new","size":5}`, "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"link, deleted":                    {call{"POST", "/shares", `{"node":"{f}"}`, "", ""}, deletes, []int{404, 409}, "x=old"},
		"collect link, deleted":            {call{"POST", "/collects", `{"folder":"{d}","title":"t"}`, "", ""}, deletesFolder, []int{404, 409}, "f=one x=old"},
		"restore, name taken":              {call{"POST", "/nodes/{t}/restore", `{"conflict":"fail"}`, "", ""}, call{"PATCH", "/nodes/{x}", `{"name":"t"}`, "", ""}, []int{409}, "f=one t=old"},
		"delete for good, restored":        {call{"DELETE", "/nodes/{t}?permanent=true&trashed_at={when}", "", "", ""}, restores, []int{412}, "f=one t=gone x=old"},
		"delete for good, folder deleted":  {call{"DELETE", "/nodes/{i}?permanent=true&trashed_at={within}", "", "", ""}, call{"DELETE", "/nodes/{d}?permanent=true", "", "", ""}, []int{204}, "f=one x=old"},
		"operation delete, restored":       {call{"POST", "/operations", `{"kind":"delete","nodes":["{t}"],"trashed_until":"{when}"}`, "", ""}, restores, []int{201}, "f=one t=gone x=old"},
		"operation delete all, restored":   {call{"POST", "/operations", `{"kind":"delete","all":{"trash":true},"trashed_until":"{when}"}`, "", ""}, restores, []int{201}, "f=one t=gone x=old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, uploadtest.Options{})
			u := s.newUser(t, "ann", 0)
			f, x, trashed := u.put(t, "/f", []byte("one")), u.put(t, "/x", []byte("old")), u.put(t, "/t", []byte("gone"))
			d := u.mkdir(t, "/d").json(t, http.StatusCreated)
			within := u.put(t, "/d/in", []byte("in"))
			trash := func(n map[string]any) string {
				at := "/nodes/" + n["id"].(string)
				u.send(t, "DELETE", at, nil)
				return u.get(t, at).json(t, http.StatusOK)["trashed_at"].(string)
			}
			inside, when := trash(within), trash(trashed)
			got := u.get(t, "/nodes/"+f["id"].(string)+"/content")
			rev := fmt.Sprintf("%q", fmt.Sprint(f["rev"]))
			fill := strings.NewReplacer("{f}", f["id"].(string), "{x}", x["id"].(string), "{d}", d["id"].(string), "{t}", trashed["id"].(string),
				"{tag}", got.Header.Get("ETag"), "{rev}", rev, "{i}", within["id"].(string), "{when}", when, "{within}", inside)
			send := func(c call) response {
				var body any
				if body = []byte(c.body); strings.HasPrefix(c.body, "{") {
					body = fill.Replace(c.body)
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
			if !slices.Contains(r.want, answer.StatusCode) {
				t.Errorf("answered %d, want one of %d: %s", answer.StatusCode, r.want, answer.body)
			}
			if r.request.path == "/operations" {
				u.end(t, answer.json(t, http.StatusCreated))
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
