package notify_test

import (
	"fmt"
	"testing"

	"example.org/smartdrive/internal/domain/notice"
)

// TestListCostsFewStatements: a page costs the same number of statements for many notices as for a
// few.
func TestListCostsFewStatements(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob")
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
			r, err := notice.NewRecord(notice.Cause{Kind: notice.Share, What: notice.Given, Account: f.Account, Node: f.ID, By: w.people["ann"].User, User: w.people["bob"].User})
			w.handle(t, r, err)
		}
	}
	tell(2)
	page() // prepares statements
	few := page()
	tell(60)
	page()
	if many := page(); many > few || many > 12 {
		t.Errorf("%d calls for 62 notices, %d for 2", many, few)
	}
}
