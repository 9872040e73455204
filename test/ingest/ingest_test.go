//go:build unix

package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/process"
	system "example.org/smartdrive/test/system/rig"
)

func TestMain(m *testing.M) { process.Main(m) }

// send puts a bundle of n invoices into the drive, its meta.json last, and returns the id that it
// was given here.
func send(t *testing.T, u system.User, from, n int) string {
	t.Helper()
	var lines bytes.Buffer
	for i := range n {
		d := invoicetest.New(uint64(from + i))
		d.Number = fmt.Sprintf("C-%06d", from+i)
		lines.Write(invoicetest.NDJSON(d))
	}
	sum := sha256.Sum256(lines.Bytes())
	m := bundle.Manifest{Schema: bundle.Schema, ID: bundle.NewID(), Source: "acme", CreatedAt: time.Now()}
	m.Members = append(m.Members, bundle.Member{Name: "all.ndjson", Size: int64(lines.Len()), SHA256: hex.EncodeToString(sum[:]), Documents: n})
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name string
		raw  []byte
	}{{"all.ndjson", lines.Bytes()}, {"meta.json", raw}} {
		u.Do(t, "PUT", "/files"+bundle.Folder(m.Source, m.ID).String()+"/"+f.name+"?parents=true", f.raw).Is(t, http.StatusCreated)
	}
	return m.ID
}

// bundles returns the server's bundles by the ids that senders chose.
func bundles(t *testing.T, u system.User) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, b := range u.Get(t, "/bundles").Items(t) {
		all[b["sender_id"].(string)] = b
	}
	return all
}

// recovery is how long everything may take after a kill: a lease of 30 s, a look every 10 s, and
// the work that is left.
const recovery = time.Minute

// The instance that takes bundles in is killed in the middle of one. Another takes over within a
// minute; each document is there once, and a bundle that is sent again has duplicates only.
func TestIntakeInstanceIsKilled(t *testing.T) {
	t.Parallel()
	c := rig.New(t, rig.Options{})
	api := c.Site(t, "api,scheduler,worker").Start(t)
	dies := c.Site(t, "ingest").Start(t)
	ann := api.NewUser(t, "ann", 1<<30)

	const each = 4000
	first := send(t, ann, 0, each)
	process.Eventually(t, system.Patience, "the first instance is in the middle", func() error {
		b := bundles(t, ann)[first]
		if b == nil || b["accepted"].(float64) == 0 {
			return errors.New("it has not begun")
		}
		return nil
	})
	dies.Kill()
	killed := time.Now()
	again, other := send(t, ann, 0, 500), send(t, ann, each, 300)
	heir := c.Site(t, "ingest").Start(t)
	process.Eventually(t, recovery+system.Patience, "another has taken everything in", func() error {
		for id, b := range bundles(t, ann) {
			if b["state"] != "done" {
				return fmt.Errorf("bundle %s is %v with %v", id, b["state"], b["accepted"])
			}
		}
		return nil
	})
	t.Logf("it took %s after the kill", time.Since(killed).Round(time.Second))
	all := bundles(t, ann)
	for id, want := range map[string][2]float64{first: {each, 0}, again: {0, 500}, other: {300, 0}} {
		if b := all[id]; b["accepted"].(float64)+b["duplicate"].(float64) != want[0]+want[1] {
			t.Errorf("%v accepted and %v duplicate, want %v", b["accepted"], b["duplicate"], want)
		}
	}
	if sum := all[first]["accepted"].(float64) + all[again]["accepted"].(float64); sum != each {
		t.Errorf("%v of %d documents that were sent twice are accepted", sum, each)
	}
	lines := ann.Get(t, "/documents?format=ndjson").Is(t, http.StatusOK).Bytes
	if n := bytes.Count(lines, []byte("\n")); n != each+300 {
		t.Errorf("%d documents are shown", n)
	}
	heir.End(t)
}

// A server is killed during the intake of a bundle and restarted. It continues within a minute and
// counts the bundle once.
func TestServerIsKilledDuringIntake(t *testing.T) {
	t.Parallel()
	site := system.New(t)
	srv := site.Start(t)
	ann := srv.NewUser(t, "ann", 1<<30)
	const each = 2000
	id := send(t, ann, 0, each)
	process.Eventually(t, system.Patience, "it is in the middle", func() error {
		b := bundles(t, ann)[id]
		if b == nil || b["accepted"].(float64) == 0 {
			return errors.New("it has not begun")
		}
		return nil
	})
	srv.Kill()
	killed := time.Now()
	again := site.Start(t)
	ann = ann.At(again)
	process.Eventually(t, recovery+system.Patience, "the bundle is done", func() error {
		if b := bundles(t, ann)[id]; b["state"] != "done" || b["accepted"] != float64(each) {
			return fmt.Errorf("it is %v with %v", b["state"], b["accepted"])
		}
		return nil
	})
	t.Logf("it took %s after the kill", time.Since(killed).Round(time.Second))
	again.End(t)
}
