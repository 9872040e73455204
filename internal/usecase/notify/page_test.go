package notify_test

import (
	"fmt"
	"testing"

	"smartdrive/internal/domain/notice"
)

// A page asks the database as often for many notices as for a few.
func TestAPageIsAHandfulOfStatements(t *testing.T) {
	t.Parallel()
	w := newTown(t, "ann", "bob")
	page := func() (calls int) {
		t.Helper()
		before := w.calls.Total()
		p, err := w.inbox.List(t.Context(), w.people["bob"], "", 200, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Items {
			if s.Gone || s.Path == "" || s.By != "ann" {
				t.Errorf("told is %+v", s)
			}
		}
		return w.calls.Total() - before
	}
	told := 0
	tell := func(n int) {
		t.Helper()
		for range n {
			told++
			f := w.folder(t, "ann", fmt.Sprint("Folder ", told))
			w.share(t, f, "bob", 0)
			r, err := notice.Due(notice.Cause{Kind: notice.Share, What: notice.Given, Account: f.Account, Node: f.ID, By: w.people["ann"].User, User: w.people["bob"].User})
			w.handle(t, r, err)
		}
	}
	tell(2)
	page() // what is prepared once
	few := page()
	tell(60)
	page()
	if many := page(); many > few || many > 12 {
		t.Errorf("%d calls for 62 notices, %d for 2", many, few)
	}
}
