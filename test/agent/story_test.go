package agent

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/client"
	"example.org/smartdrive/client/agent"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// From the directory of an accounting program to the documents that a person sees, and back to the
// status of the agent.
func TestDocumentsArriveAndAreShown(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the server is stopped by signals")
	}
	h := &house{
		t: t, binary: process.Binary(t), data: filepath.Join(t.TempDir(), "data"), listen: process.Address(t), watch: t.TempDir(),
		messages: new(rig.Log), rnd: rand.New(rand.NewPCG(1, 2)), dropped: map[string]string{},
	}
	t.Cleanup(h.end)
	h.serve()
	h.login()

	ubl, cii := invoicetest.New(1), invoicetest.New(2)
	h.put("out/inv-1.xml", invoicetest.UBL(ubl))
	h.put("out/inv-1.pdf", []byte("%PDF-1.4 of the first"))
	h.put("out/inv-2.xml", invoicetest.CII(cii))
	h.put("发票.xml", invoicetest.Fapiao(invoicetest.Chinese(3)))
	h.put("month.ndjson", invoicetest.NDJSON(invoicetest.New(4), invoicetest.New(5), invoicetest.New(6)))
	h.put("broken.xml", []byte("<Invoice"))
	h.rest()
	h.verdict(0, agent.Verdict{State: "done", Accepted: 6, Rejected: 1})
	shown := h.documents()
	if len(shown) != 6 {
		t.Errorf("%d documents are shown: %v", len(shown), shown)
	}
	first, ok := shown[ubl.Number]
	if !ok || first.PDF == "" || first.File == "" || first.Source != source || first.Total != ubl.Totals.Gross.String() {
		t.Errorf("the first invoice is shown as %+v", first)
	}
	if second := shown[cii.Number]; second.PDF != "" || second.Seller.Name != cii.Seller.Name {
		t.Errorf("the second invoice is shown as %+v", second)
	}

	h.put("again/inv-1-copy.xml", invoicetest.UBL(ubl)) // the same invoice, sent a second time
	h.rest()
	h.verdict(0, agent.Verdict{State: "done", Duplicate: 1})
	if diff := cmp.Diff(shown, h.documents()); diff != "" {
		t.Errorf("a duplicate has changed what is shown:\n%s", diff)
	}
}

func (h *house) put(name string, content []byte) {
	h.t.Helper()
	full := filepath.Join(h.watch, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(full), 0o777)
	if err == nil {
		err = os.WriteFile(full, content, 0o666)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// verdict waits until the agent knows what became of its n-th bundle, the newest first; the agent
// asks whenever it is started.
func (h *house) verdict(n int, want agent.Verdict) {
	h.t.Helper()
	process.Eventually(h.t, 3*time.Minute, "the server takes the bundle in", func() error {
		_ = h.command("--once").Run() // 7 while something is left over
		s, err := agent.ReadStatus(h.watch)
		if err != nil {
			return err
		}
		if len(s.Bundles) <= n || s.Bundles[n].Verdict == nil {
			return errors.New("no verdict yet")
		}
		if got := *s.Bundles[n].Verdict; got != want {
			h.t.Fatalf("the verdict is %+v, want %+v", got, want)
		}
		return nil
	})
}

// documents returns what is shown, by number.
func (h *house) documents() map[string]client.Document {
	h.t.Helper()
	all := map[string]client.Document{}
	for d, err := range h.api().AllDocuments(h.t.Context(), url.Values{"source": {source}}) {
		if err != nil {
			h.t.Fatal(err)
		}
		if _, twice := all[d.Number]; twice {
			h.t.Errorf("number %s is shown twice", d.Number)
		}
		all[d.Number] = d
	}
	return all
}
