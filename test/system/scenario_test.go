package system_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// within fails the test if the account exceeds its quota.
func within(t *testing.T, s *rig.Server, name string) rig.Ledger {
	t.Helper()
	l := s.Ledger(t, name)
	if l.Finished+l.Unfinished+l.Reserved > *l.Total {
		t.Errorf("Q4: %s is charged %+v of %d", name, l, *l.Total)
	}
	return l
}

// TestScenarioDDeclareSmallSendBig: sending more than declared is refused, in parts, beyond the
// length, and without a length.
func TestScenarioDDeclareSmallSendBig(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	s := site.Start(t)
	const quota = 100 * rig.MiB
	u := s.NewUser(t, "ann", quota)
	up := u.Begin(t, "/small", history.Content{Seed: 1, Size: 2*rig.MiB + 10})
	part := "/uploads/" + up.ID + "/parts/"
	u.Do(t, http.MethodPut, part+"0", make([]byte, rig.MiB+1)).Problem(t, 400, "part-size")
	u.Do(t, http.MethodPut, part+"2", make([]byte, 11)).Problem(t, 400, "part-size")
	u.Do(t, http.MethodPut, part+"3", make([]byte, 10)).Problem(t, 400, "part-range")
	u.Do(t, http.MethodPut, part+"-1", make([]byte, 10)).Is(t, 400, 404)
	u.Do(t, http.MethodPut, part+"0", bytes.NewReader(make([]byte, rig.MiB))).Problem(t, 411, "length-required")
	if l := within(t, s, "ann"); l.Reserved != up.Content.Size {
		t.Errorf("reserved is %d, not what was declared", l.Reserved)
	}
	up.Cancel(t)

	// Without a declared size, excess parts are refused on arrival, and received bytes are
	// charged. Parts are 64 MiB here.
	begun := u.Post(t, "/uploads", map[string]any{"path": "/unknown", "size": nil}).JSON(t, http.StatusCreated)
	id, size := begun["id"].(string), begun["part_size"].(float64)
	full := make([]byte, int64(size))
	within(t, s, "ann")
	u.Do(t, http.MethodPut, "/uploads/"+id+"/parts/0", full).Is(t, http.StatusNoContent)
	within(t, s, "ann")
	r := u.Do(t, http.MethodPut, "/uploads/"+id+"/parts/1", full).Problem(t, http.StatusInsufficientStorage, "quota")
	if r["available"] != quota-size || r["needed"] != size {
		t.Errorf("the refusal is %v", r)
	}
	within(t, s, "ann")
	u.Do(t, http.MethodPut, "/uploads/"+id+"/parts/1", full[:quota-len(full)]).Is(t, http.StatusNoContent)
	u.Do(t, http.MethodPut, "/files/another", []byte("x")).Problem(t, http.StatusInsufficientStorage, "quota")
	u.Post(t, "/uploads/"+id+"/complete", map[string]any{}).Is(t, 400) // the size is required at completion
	u.Post(t, "/uploads/"+id+"/complete", map[string]any{"size": quota}).Is(t, http.StatusCreated)
	if got := u.Node(t, "/unknown")["size"]; got != float64(quota) {
		t.Errorf("the file has %v bytes", got)
	}
	if l := within(t, s, "ann"); l.Finished != quota || l.Reserved != 0 {
		t.Errorf("the ledger is %+v", l)
	}
}

// TestScenarioDChunkedFilesAgainstTheQuota: a whole file without a length that exceeds the quota
// leaves nothing behind, in one request or in ten concurrent ones.
func TestScenarioDChunkedFilesAgainstTheQuota(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 10*rig.MiB)
	big := make([]byte, 12*rig.MiB)
	u.Do(t, http.MethodPut, "/files/big", bytes.NewReader(big)).Problem(t, http.StatusInsufficientStorage, "quota")
	u.Do(t, http.MethodPut, "/files/big", big).Problem(t, http.StatusInsufficientStorage, "quota")
	process.Eventually(t, rig.Patience, "everything is given back", func() error {
		if l := within(t, s, "ann"); l.Finished+l.Unfinished+l.Reserved != 0 {
			return fmt.Errorf("the ledger is %+v", l)
		}
		return nil
	})

	answers := make(chan rig.Reply, 10)
	for n := range cap(answers) {
		go func() {
			r, err := u.Try(t, http.MethodPut, fmt.Sprintf("/files/file-%d", n), bytes.NewReader(big[:3*rig.MiB]))
			if err != nil {
				t.Error(err)
			}
			answers <- r
		}()
	}
	var stored int64
	for range cap(answers) {
		switch r := <-answers; {
		case r.Response == nil:
		case r.StatusCode == http.StatusCreated:
			stored++
		default:
			r.Problem(t, http.StatusInsufficientStorage, "quota")
		}
	}
	if stored == 0 || stored > 3 {
		t.Errorf("%d files of 3 MiB were stored with a quota of 10 MiB", stored)
	}
	process.Eventually(t, rig.Patience, "the rest is given back", func() error {
		if l := within(t, s, "ann"); l.Finished != stored*3*rig.MiB || l.Unfinished+l.Reserved != 0 {
			return fmt.Errorf("the ledger is %+v with %d files", l, stored)
		}
		return nil
	})
}

// TestScenarioDALengthThatIsALie: the connection ends before Content-Length bytes were sent. The
// partial part is neither stored nor charged as complete.
func TestScenarioDALengthThatIsALie(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 10*rig.MiB)
	up := u.Begin(t, "/upload", content(1))
	w := dial(t, s)
	w.say(t, u, "PUT /api/v1/uploads/"+up.ID+"/parts/0", fmt.Sprintf("Content-Length: %d", rig.MiB))
	if _, err := w.Write(up.Part(0)[:1000]); err != nil {
		t.Fatal(err)
	}
	torn := dial(t, s)
	torn.say(t, u, "PUT /api/v1/files/torn", "Content-Length: 100000")
	if _, err := torn.Write(make([]byte, 5000)); err != nil {
		t.Fatal(err)
	}
	metric(t, s, "http_in_flight", "3") // with this question: both have begun
	if err := errors.Join(w.Close(), torn.Close()); err != nil {
		t.Fatal(err)
	}
	metric(t, s, "http_in_flight", "1")
	if got := fmt.Sprint(up.View(t)["received"]); got != "[]" {
		t.Errorf("the torn part is there: %s", got)
	}
	u.Get(t, "/nodes?path=/torn").Problem(t, 404, "not-found")
	if l := within(t, s, "ann"); l.Reserved != rig.MiB || l.Finished != 0 || l.Unfinished != 0 {
		t.Errorf("the ledger is %+v", l)
	}
	up.Send(t, 0)
	up.Complete(t)
	u.Holds(t, "/upload", content(1))
}

// TestScenarioKRestartMidUpload: the server is killed during parts. All acknowledged parts are
// there, and the upload continues.
func TestScenarioKRestartMidUpload(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	s := site.Start(t)
	u := s.NewUser(t, "ann", 50*rig.MiB)
	up := u.Begin(t, "/upload", history.Content{Seed: 1, Size: 6*rig.MiB + 5})
	up.Send(t, 6, 2)
	w := dial(t, s)
	w.say(t, u, "PUT /api/v1/uploads/"+up.ID+"/parts/4", fmt.Sprintf("Content-Length: %d", rig.MiB))
	if _, err := w.Write(up.Part(4)[:rig.MiB/2]); err != nil {
		t.Fatal(err)
	}
	metric(t, s, "http_in_flight", "2")
	s.Kill()
	for restart := range 3 { // killed again before anything was received
		s = site.Start(t)
		up = up.At(s)
		view := up.View(t)
		if view["state"] != "active" && view["state"] != "parked" || fmt.Sprint(view["received"]) != "[[2 2] [6 6]]" {
			t.Fatalf("after restart %d the upload is %v", restart, view)
		}
		within(t, s, "ann")
		s.Kill()
	}
	s = site.Start(t)
	up = up.At(s)
	// A begin finds an upload by its fingerprint, not by its size.
	again := up.Post(t, "/uploads", map[string]any{"path": "/other", "size": up.Content.Size}).JSON(t, http.StatusCreated)
	if again["id"] == up.ID {
		t.Error("it was found by its size alone")
	}
	up.Send(t, 0, 1, 2, 3, 4, 5)
	up.Complete(t)
	up.Holds(t, "/upload", up.Content)
	s.Kill() // after the acknowledgement
	s = site.Start(t)
	up.At(s).Holds(t, "/upload", up.Content)
}

// TestScenarioKAParkedUploadIsWokenAfterARestart: a parked upload stays parked after restarts, is
// charged for the received bytes, and resumes with the next part.
func TestScenarioKAParkedUploadIsWokenAfterARestart(t *testing.T) {
	t.Parallel()
	site := rig.New(t, "--upload-idle", "200ms")
	s := site.Start(t)
	u := s.NewUser(t, "ann", 50*rig.MiB)
	up := u.Begin(t, "/upload", history.Content{Seed: 1, Size: 4 * rig.MiB})
	up.Send(t, 1, 3)
	parked := func() {
		t.Helper()
		process.Eventually(t, rig.Patience, "it is parked", func() error {
			l := s.Ledger(t, "ann")
			if view := up.At(s).View(t); view["state"] != "parked" || l.Unfinished != 2*rig.MiB || l.Reserved != 0 {
				return fmt.Errorf("it is %v, charged %+v", view["state"], l)
			}
			return nil
		})
	}
	parked()
	for range 2 {
		s.Kill()
		s = site.Start(t)
		parked()
	}
	up = up.At(s)
	up.Send(t, 0, 2)
	up.Complete(t)
	up.Holds(t, "/upload", up.Content)
	if l := s.Ledger(t, "ann"); l.Finished != 4*rig.MiB || l.Unfinished+l.Reserved != 0 {
		t.Errorf("the ledger is %+v", l)
	}
	s.End(t)
	sound(t, site)
}

// TestCreationIsNotRepeatedAfterKill: the server commits a creation and dies before its
// response is read. A retry gets the original response.
func TestCreationIsNotRepeatedAfterKill(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	s := site.Start(t)
	u := s.NewUser(t, "ann", 50*rig.MiB)
	for _, c := range []struct{ path, body string }{
		{"/nodes", `{"parent":"root","name":"one","type":"folder"}`},
		{"/uploads", `{"path":"/one file","size":1000}`},
	} {
		key := "key-of" + strings.ReplaceAll(c.path, "/", "-")
		w := dial(t, s)
		w.say(t, u, "POST /api/v1"+c.path, "Content-Type: application/json", "Idempotency-Key: "+key, fmt.Sprintf("Content-Length: %d", len(c.body)))
		if _, err := io.WriteString(w, c.body); err != nil {
			t.Fatal(err)
		}
		committed(t, site.Data, key)
		s.Kill()
		s = site.Start(t)
		u = u.At(s)
		send := func(body string) rig.Reply {
			return u.Post(t, c.path, bytes.NewReader([]byte(body)), "Content-Type", "application/json", "Idempotency-Key", key)
		}
		first := send(c.body)
		if first.StatusCode != http.StatusCreated || first.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %s, replayed %q", c.path, first, first.Header.Get("Idempotent-Replayed"))
		}
		if second := send(c.body); !bytes.Equal(first.Bytes, second.Bytes) {
			t.Errorf("%s: the second answer is %s, the first %s", c.path, second, first)
		}
		send(strings.Replace(c.body, "one", "two", 1)).Problem(t, http.StatusUnprocessableEntity, "key-reused")
	}
	if made := u.Get(t, "/nodes/root/children").Items(t); len(made) != 1 {
		t.Errorf("there are %d folders", len(made))
	}
	if made := u.Get(t, "/uploads").Items(t); len(made) != 1 {
		t.Errorf("there are %d uploads", len(made))
	}
}

// committed waits until the database contains an idempotency key; it reads the database directly.
func committed(t *testing.T, data, key string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "smartdrive.db")+"?_pragma=busy_timeout(5000)&_pragma=query_only(ON)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	process.Eventually(t, rig.Patience, "the creation is committed", func() error {
		var n int
		err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM idempotency WHERE key = ?", key).Scan(&n)
		if err == nil && n == 0 {
			err = fmt.Errorf("there is no such key")
		}
		return err
	})
}
