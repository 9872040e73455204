package ingest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

func TestRejectionsOfAllBundlesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	bad := func(number string) *parcel {
		wrong := doc(number, 1)
		wrong.Seller.Name = ""
		return newParcel("acme").lines("a.ndjson", doc("G"+number, 2), wrong).add("x.bin", 1, []byte("\x00"))
	}
	other := newParcel("other").lines("a.ndjson", doc("G", 2)).add("y.bin", 2, []byte("\x00"))
	for _, p := range []*parcel{bad("1"), newParcel("acme").lines("a.ndjson", doc("F", 3)), other, bad("2")} {
		w.send(t, p)
		w.finish(t, in)
	}
	list := func(f RejectedFilter) (found []string) {
		for after := ""; ; {
			page, err := in.Rejections(t.Context(), w.who, f, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page {
				found, after = append(found, r.Source+" "+r.Member+" "+*r.Reason+" "+r.Number), r.Cursor()
			}
			if len(page) < 2 {
				return found
			}
		}
	}
	want := []string{
		"acme a.ndjson invalid 2", "acme x.bin unsupported ", "other y.bin unsupported ", "acme a.ndjson invalid 1", "acme x.bin unsupported ",
	}
	if diff := cmp.Diff(want, list(RejectedFilter{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{want[0], want[3]}, list(RejectedFilter{Source: "acme", Reason: "invalid"})); diff != "" {
		t.Error(diff)
	}
	if _, err := in.Rejections(t.Context(), w.who, RejectedFilter{}, "x", 2); !drive.IsKind(err, drive.CursorInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
	page, err := in.Rejections(t.Context(), w.who, RejectedFilter{Reason: "invalid"}, "", 1)
	if err != nil || len(page) != 1 || len(page[0].Findings) == 0 || page[0].Findings[0].Rule != "BR-06" {
		t.Errorf("%v, error %v", page, err)
	}
}
