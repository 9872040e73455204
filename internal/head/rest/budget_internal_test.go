package rest

import (
	"testing"
	"testing/synctest"
)

// One user's many small pages leave connections of the database to others: two are read at a time,
// and the third waits until one of them has ended, while another user's is read at once.
func TestConcurrentPagesPerUserAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1 << 20)
		got := make(chan string, 10)
		ask := func(user string) {
			go func() {
				if err := b.acquirePage(t.Context(), user, 1, 1<<19); err != nil {
					t.Error(err)
				}
				got <- user
			}()
			synctest.Wait()
		}
		for range 4 {
			ask("ann")
		}
		if n := len(got); n != pagesAtOnce {
			t.Errorf("%d pages of one user are read at a time, want %d", n, pagesAtOnce)
		}
		ask("bob")
		if n := len(got); n != pagesAtOnce+1 {
			t.Error("another user waits for the first one's pages")
		}
		for range 4 {
			b.releasePage("ann", 1)
			synctest.Wait()
		}
		b.releasePage("bob", 1)
		if len(got) != 5 || b.free != b.most || len(b.pages) != 0 || len(b.held) != 0 {
			t.Errorf("%d were read, %d bytes of %d are free, %v", len(got), b.free, b.most, b.pages)
		}
	})
}
