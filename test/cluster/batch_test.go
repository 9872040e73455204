package cluster

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/client"
	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	system "example.org/smartdrive/test/system/rig"
)

// TestPacksOverTwoInstances: small files are uploaded in batches through one instance and read
// through the other. Then users of both instances delete files in the same packs, and both
// instances rewrite these packs. The remaining files are intact.
func TestPacksOverTwoInstances(t *testing.T) {
	t.Parallel()
	c := rig.New(t, rig.Options{})
	a, b := startNode(t, c, "a", ""), startNode(t, c, "b", "")
	ann := a.NewUser(t, "ann", 1<<30)
	const files = 300
	from := t.TempDir()
	contents := make([]history.Content, files)
	for i := range contents {
		contents[i] = history.Content{Seed: uint64(i), Size: int64(1 + i*i*40%40_000)} // some are too large for a pack
		if err := os.WriteFile(filepath.Join(from, fmt.Sprint(i)), contents[i].Bytes(0, contents[i].Size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up, err := clientOf(t, ann).Uploader(client.UploadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := up.PutTree(t.Context(), from, "/t", client.TreeOptions{}); err != nil || sum.Failed > 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	j := newJudge(t, c)
	packs := 0
	for key := range j.objects() {
		if strings.HasSuffix(key, ".pack") {
			packs++
		}
	}
	if packs == 0 || packs > files/10 {
		t.Errorf("%d packs for %d files", packs, files)
	}
	for i, want := range contents {
		ann.At(b.Server).Holds(t, fmt.Sprint("/t/", i), want)
	}

	var both sync.WaitGroup
	for which, at := range []*node{a, b} {
		both.Go(func() {
			u := ann.At(at.Server)
			for i := which; i < files; i += 3 { // of three files one remains
				id := u.Node(t, fmt.Sprint("/t/", i))["id"].(string)
				u.Do(t, http.MethodDelete, "/nodes/"+id+"?permanent=true", nil).Is(t, http.StatusNoContent)
			}
		})
	}
	both.Wait()
	// Content that frees too little of its pack is deferred for weeks (decision 166).
	notDeferred := fmt.Sprintf(`SELECT COUNT(*) FROM released WHERE released_at < %d`, time.Now().Add(24*time.Hour).UnixMilli())
	process.Eventually(t, patience, "the released contents are deleted", func() (err error) {
		j.each(notDeferred, func(scan func(...any) error) error {
			left := 0
			if err := scan(&left); err != nil || left == 0 {
				return err
			}
			err = fmt.Errorf("%d are left", left)
			return nil
		})
		return err
	})
	for i := 2; i < files; i += 3 {
		ann.At(a.Server).Holds(t, fmt.Sprint("/t/", i), contents[i])
	}
	j.judge(a, b)
}

func clientOf(t *testing.T, u system.User) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{BaseURL: u.URL, Token: u.Token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
