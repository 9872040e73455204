package rest_test

import (
	"testing"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// TestClientStarsNodes goes through the public client's part about stars and what changed last.
func TestClientStarsNodes(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", 0)
	ann.send(t, "PUT", "/files/a.txt", []byte("a"))
	api := s.connect(t, ann)
	shelf := client.NewStars(api)
	n := must[client.Node](t)(api.NodeAt(t.Context(), "/a.txt"))
	if err := shelf.Star(t.Context(), n.ID); err != nil {
		t.Fatal(err)
	}
	for _, list := range []func() map[string]bool{
		func() map[string]bool { return pathSet(t, shelf.AllStarred(t.Context())) },
		func() map[string]bool { return pathSet(t, shelf.AllRecent(t.Context())) },
	} {
		if got := list(); len(got) != 1 || !got["/a.txt"] {
			t.Errorf("listed %v", got)
		}
	}
	if err := shelf.Unstar(t.Context(), n.ID); err != nil {
		t.Fatal(err)
	}
	if got := pathSet(t, shelf.AllStarred(t.Context())); len(got) != 0 {
		t.Errorf("listed %v", got)
	}
}

func pathSet(t testing.TB, nodes func(func(client.Node, error) bool)) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	for n, err := range nodes {
		if err != nil {
			t.Fatal(err)
		}
		got[n.Path] = true
	}
	return got
}
