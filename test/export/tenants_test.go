package export

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"example.org/smartdrive/test/process"
)

// Three tenants share a server. The documents of the first never end, and it occupies both workers
// when the others arrive; the second requests fifty zips, the third one. The second and third get
// their zips, and the batches of the first continue.
func TestThreeTenantsShareTheServer(t *testing.T) {
	t.Parallel()
	begun := make(chan string, 1000)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- strings.Split(r.URL.Path, "/")[1]
		_, _ = fmt.Fprint(w, "%PDF-") // its error is that nobody reads any more
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // nothing more comes
	}))
	t.Cleanup(source.Close)
	host, err := url.Parse(source.URL)
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, "--export-hosts", host.Host, "--export-addresses", "any")
	hostile, many, one := d.tenant("hostile"), d.tenant("many"), d.tenant("one")

	var endless []string
	for _, name := range []string{"x", "y"} {
		var list strings.Builder
		for i := range 100 {
			fmt.Fprintf(&list, "{\"url\":\"%s/%s/%d.pdf\"}\n", source.URL, name, i)
		}
		endless = append(endless, d.send(http.MethodPost, "/exports/manifest?name="+name, hostile, "application/x-ndjson", list.String())["id"].(string))
	}
	for seen := map[string]bool{}; len(seen) < 2; {
		seen[<-begun] = true
	}
	for range 50 {
		d.export(many)
	}
	single := d.export(one)

	process.Eventually(t, patience, "the single zip is there", func() error { return d.sealed(one, single) })
	process.Eventually(t, patience, "the fifty are there", func() error {
		for _, v := range d.call(http.MethodGet, "/exports?limit=100", many, nil)["items"].([]any) {
			if v := v.(map[string]any); v["state"] != "sealed" {
				return fmt.Errorf("one of them is %v", v["state"])
			}
		}
		return nil
	})
	for _, id := range endless {
		if state := d.call(http.MethodGet, "/exports/"+id, hostile, nil)["state"]; state != "running" && state != "pending" {
			t.Errorf("what does not end is %v", state)
		}
	}
}

// tenant makes a user with a file, and returns a token.
func (d *desk) tenant(name string) (token string) {
	d.t.Helper()
	d.call(http.MethodPost, "/admin/users", d.token(), strings.NewReader(`{"name":"`+name+`","password":"`+password+`"}`))
	token = d.tokenOf(name)
	d.send(http.MethodPut, "/files/a.pdf", token, "application/pdf", "%PDF-1.7")
	return token
}

// export requests a zip of the tenant's file.
func (d *desk) export(token string) (id string) {
	d.t.Helper()
	return d.send(http.MethodPost, "/exports/manifest", token, "application/x-ndjson", `{"path":"/a.pdf"}`+"\n")["id"].(string)
}

func (d *desk) sealed(token, id string) error {
	if v := d.call(http.MethodGet, "/exports/"+id, token, nil); v["state"] != "sealed" || v["failed"] != 0.0 {
		return fmt.Errorf("it is %v", v)
	}
	return nil
}
