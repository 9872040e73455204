package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	system "example.org/smartdrive/test/system/rig"
)

// TestTwoInstancesFillOneUpload: two instances serve the API, one delivers timers, one handles
// them. Files uploaded through one instance are read through the other. Both fill one upload; when
// one is killed in the middle of a part, the other receives that part and completes.
func TestTwoInstancesFillOneUpload(t *testing.T) {
	t.Parallel()
	c := rig.New(t, rig.Options{})
	const never = "1h" // no upload is abandoned in this test
	a, b := startNode(t, c, "a", "api", "--upload-abandon", never), startNode(t, c, "b", "api", "--upload-abandon", never)
	scheduler := startNode(t, c, "scheduler", "scheduler", "--upload-abandon", never)
	worker := startNode(t, c, "worker", "worker", "--upload-abandon", never)
	ann := a.NewUser(t, "ann", 1<<30)
	small := history.Content{Seed: 1, Size: 100_000}
	ann.Put(t, "/small", small)
	ann.At(b.Server).Holds(t, "/small", small)

	big := history.Content{Seed: 2, Size: 5*partSize + 12345}
	up := ann.Begin(t, "/big", big, parts)
	if up.PartSize != partSize {
		t.Fatalf("parts of %d bytes", up.PartSize)
	}
	at := []system.Upload{up, up.At(b.Server)}
	for n := range 3 {
		at[n%2].Send(t, n)
	}
	quiet := ann.Begin(t, "/quiet", big, parts)
	quiet.Send(t, 0)
	dieInAPart(t, c, a, up, 3)

	left := at[1]
	process.Eventually(t, patience, "the other instance takes the part", func() error {
		return is(left.SendPart(t, 3), http.StatusNoContent)
	})
	left.Send(t, 4, 5)
	left.Complete(t)
	left.Holds(t, "/big", big)

	process.Eventually(t, patience, "the quiet upload is parked by scheduler and worker", func() error {
		if v := quiet.At(b.Server).View(t); v["state"] != "parked" {
			return fmt.Errorf("it is %v", v["state"])
		}
		return nil
	})
	if l := b.Ledger(t, "ann"); l.Finished != small.Size+big.Size || l.Reserved != 0 || l.Unfinished != partSize {
		t.Errorf("ann is charged %+v", l)
	}
	quiet.At(b.Server).Cancel(t)
	newJudge(t, c).judge(b, scheduler, worker)
}

// dieInAPart kills an instance after it has received and started to write half of a part.
func dieInAPart(t *testing.T, c *rig.Cluster, n *node, up system.Upload, part int) {
	t.Helper()
	body := up.Part(part)
	half, more := io.Pipe()
	defer more.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("%s/api/v1/uploads/%s/parts/%d", n.URL, up.ID, part),
		io.MultiReader(bytes.NewReader(body[:len(body)/2]), half))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		if r, err := up.User.Send(req); err == nil {
			failed <- fmt.Errorf("half a part was answered with %s", r)
		}
	}()
	db := redisClient(t, c)
	process.Eventually(t, patience, "the part is on its way", func() error {
		leases, err := db.HLen(t.Context(), "smartdrive:{u:"+up.ID+"}:l").Result() // docs/formats/redis.md
		if err == nil && leases == 0 {
			err = errors.New("nobody writes")
		}
		return err
	})
	n.Kill()
	more.CloseWithError(io.ErrUnexpectedEOF) // the request stays open until its body ends
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

func is(r system.Reply, status int) error {
	if r.StatusCode != status {
		return fmt.Errorf("answered with %s", r)
	}
	return nil
}
