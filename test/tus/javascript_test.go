package tus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/test/process"
)

// report is what clients/upload.mjs prints.
type report struct {
	URL      string
	Stopped  bool
	Requests []string // "METHOD status"
	Error    string
}

// script starts clients/upload.mjs; goOn ends its standard input, and wait returns what it reports.
func (d *drive) script(mode, name string, content []byte) (goOn func(), wait func() report) {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.CommandContext(d.t.Context(), node(d.t), "clients/upload.mjs", mode, d.url+"/tus/", d.token, file, name)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(file))
	var out, messages strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &messages
	in, err := cmd.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	goOn = func() { _ = in.Close() } // it may have ended
	return goOn, func() (r report) {
		d.t.Helper()
		err := cmd.Wait()
		if jsonErr := json.Unmarshal([]byte(out.String()), &r); err != nil || jsonErr != nil {
			d.t.Fatalf("%s: %v %v\n%s%s", mode, err, jsonErr, out.String(), messages.String())
		}
		return r
	}
}

func (r report) count(request string) (n int) {
	for _, done := range r.Requests {
		if strings.HasPrefix(done, request) {
			n++
		}
	}
	return n
}

func TestTusJSClient(t *testing.T) {
	t.Parallel()
	node(t)
	d := newDrive(t)
	for i, c := range []struct {
		mode string
		size int
		as   func(report) bool
	}{
		{"plain", 10*mib + 3, func(r report) bool { return r.count("PATCH 204") == 4 }},
		{"plain", 0, func(r report) bool { return slices.Equal(r.Requests, []string{"POST 201"}) }},
		{"resume", 40 * mib, func(r report) bool { return r.Stopped && r.count("HEAD 200") == 1 && r.count("POST") == 1 }},
		{"parallel", 20*mib + 1, func(r report) bool { return r.count("POST 201") == 4 && r.count("PATCH 204") == 3 }},
		{"defer", 7*mib + 1, func(r report) bool { return r.count("PATCH 204") == 3 }},
		{"data", mib, func(r report) bool { return slices.Equal(r.Requests, []string{"POST 201"}) }},
	} {
		name, content := fmt.Sprintf("%s-%d", c.mode, i), noise(c.size, uint64(40+i))
		_, wait := d.script(c.mode, name, content)
		r := wait()
		if !c.as(r) {
			t.Errorf("%s of %d bytes: %+v", c.mode, c.size, r)
		}
		d.holds("/"+name, content)
	}
	_, wait := d.script("terminate", "given-up", noise(40*mib, 50))
	r := wait()
	if a := d.ask("HEAD", r.URL, with(), nil); !r.Stopped || a.status != 410 {
		t.Errorf("terminate: %+v, and then %s", r, a)
	}
}

// The server is killed under an application that goes on trying.
func TestTusJSClientOutlivesTheServer(t *testing.T) {
	t.Parallel()
	node(t)
	d := newDrive(t)
	content := noise(60*mib, 51)
	goOn, wait := d.script("patient", "patient", content)
	process.Eventually(t, time.Minute, "the middle of the upload", func() error {
		var open struct {
			Items []struct {
				ID string
			}
		}
		if d.api("GET", "/uploads", nil, &open); len(open.Items) == 0 {
			return errors.New("it has not begun")
		}
		var parts struct{ Items []struct{ N int } }
		if d.api("GET", "/uploads/"+open.Items[0].ID+"/parts", nil, &parts); len(parts.Items) < 2 {
			return fmt.Errorf("%d parts are there", len(parts.Items))
		}
		return nil
	})
	d.server.Kill()
	goOn()
	d.start()
	if r := wait(); r.count("POST") != 1 || r.count("HEAD 200") == 0 {
		t.Errorf("it did not go on where it was: %+v", r)
	}
	d.holds("/patient", content)
}
