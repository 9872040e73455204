package rest_test

import (
	"testing"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Deleted content that is still on the disk is reported, because it may be why an upload is
// refused.
func TestOwedBytesAreShown(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.connect(t, s.admin(t)), s.newUser(t, "bob", 1<<20)
	c := s.connect(t, bob)
	if me := must[client.Me](t)(c.Me(t.Context())); me.Usage.Owed != 0 {
		t.Errorf("at first: %+v", me.Usage)
	}
	put := bob.send(t, "PUT", "/files/a", pattern(5000))
	id := put.json(t, 201)["id"].(string)
	if err := c.DeleteNode(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	if me := must[client.Me](t)(c.Me(t.Context())); me.Usage.Owed != 5000 || me.Usage.Used != 0 {
		t.Errorf("deleted for good: %+v", me.Usage)
	}
	if got := must[client.Ledger](t)(ann.UserLedger(t.Context(), bob.id)); got.Owed != 5000 || got.Finished != 0 {
		t.Errorf("the ledger is %+v", got)
	}
}
