package upload_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// bucket is a real store and a real Redis as seen by one instance.
type bucket struct {
	*s3.Bucket
	redis *redis.Client
	name  string
}

func realBucket(t *testing.T, name string) bucket {
	t.Helper()
	u, err := url.Parse(servicetest.URL(t, servicetest.S3))
	if err != nil {
		t.Fatal(err)
	}
	o, err := redis.ParseURL(servicetest.URL(t, servicetest.Redis))
	if err != nil {
		t.Fatal(err)
	}
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(o)
	secret, _ := u.User.Password()
	servicetest.EmptyBucket(t, u, name)
	b, err := s3.New(s3.Options{
		Endpoint: u.Host, Bucket: strings.Trim(u.Path, "/"), Prefix: name, AccessKey: u.User.Username(), SecretKey: secret,
		Insecure: u.Query().Get("insecure") == "true", Namespace: name, Redis: client, SpoolDir: t.TempDir(),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return bucket{b, client, name}
}

// flush deletes the journals of this test only.
func (b bucket) flush(t *testing.T) {
	t.Helper()
	keys := b.redis.Scan(t.Context(), 0, b.name+"*", 10_000).Iterator()
	n := 0
	for ; keys.Next(t.Context()); n++ {
		if err := b.redis.Del(t.Context(), keys.Val()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := keys.Err(); err != nil || n == 0 {
		t.Fatalf("%d keys, %v", n, err)
	}
}

// onS3 returns two instances over real services.
func onS3(t *testing.T) (a, b *uploadtest.Site, at bucket) {
	t.Helper()
	name, sh, dir := servicetest.Unique(), uploadtest.NewShared(), memoryDir(t)
	one := func() *uploadtest.Site {
		at = realBucket(t, name)
		return uploadtest.New(t, uploadtest.Options{
			Dir: dir, Shared: sh,
			Staging: func(blob.Staging) blob.Staging { return at.Staging },
			Store:   func(blob.Store) blob.Store { return at.Blobs },
		})
	}
	return one(), one(), at
}

// dyingOnS3 returns an instance over S3 and Redis that crashes, and another that continues.
func dyingOnS3(t *testing.T) (s *uploadtest.Site, fate *uploadtest.Faults, left *uploadtest.Site) {
	t.Helper()
	name, sh, dir, fate := servicetest.Unique(), uploadtest.NewShared(), memoryDir(t), &uploadtest.Faults{}
	one := func(fate *uploadtest.Faults) *uploadtest.Site {
		at := realBucket(t, name)
		return uploadtest.New(t, uploadtest.Options{
			Dir: dir, Shared: sh, Faults: fate, Upload: impatient,
			Staging: func(blob.Staging) blob.Staging { return at.Staging },
			Store:   func(blob.Store) blob.Store { return at.Blobs },
		})
	}
	return one(fate), fate, one(&uploadtest.Faults{})
}

// An instance dies at each call to the staging while it concatenates partial uploads, and another
// one finishes. TestConcatCrashAtEveryCall covers the database calls.
func TestConcatCrashOnS3(t *testing.T) {
	t.Parallel()
	for _, how := range []uploadtest.Effect{uploadtest.Die, uploadtest.DieAfter} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			t.Parallel()
			s, fate, left := dyingOnS3(t)
			for n, came := 1, true; came && !t.Failed(); n++ {
				p := cutPartials(t, s, 1000, 2*mib+5)
				fate.Set(uploadtest.Rule{N: n, Effect: how, Point: "staging."})
				_, _ = join(t, s.Sessions, p)
				s.Settle()
				came = fate.Clear()
				s.Restart(t)
				passMinute(t, left)
				v, err := join(t, left.Sessions, p)
				if err != nil {
					t.Fatal(err)
				}
				left.Settle() // its seal runs
				checkJoined(t, left, p, v.ID)
				left.CheckLedger(t, p.who)
				if t.Failed() {
					t.Logf("at call %d", n)
				}
			}
		})
	}
}

// The whole way over S3 and Redis: filled by two instances, dropped elsewhere, wrong and repaired,
// its journal lost, read back.
func TestTwoInstancesOnS3(t *testing.T) {
	t.Parallel()
	a, b, at := onS3(t)
	who, data := a.Account(t, 0), random(17*mib)
	v := a.Start(t, who, "/f", drive.ByteSize(len(data)))
	if v.PartSize != 8*drive.MiB {
		t.Fatalf("parts of %v", v.PartSize)
	}
	bad := bytes.Clone(data)
	bad[9*mib] ^= 1
	send(t, a, who, v, 0, data)
	send(t, b, who, v, 1, bad)
	send(t, a, who, v, 1, bad)
	wantKind(t, a.Send(t, who, v, 1, data), drive.PartDiffers)
	send(t, b, who, v, 2, data)
	_, _, err := a.Complete(t.Context(), who, v.ID, upload.Complete{Digests: sha(data)})
	wantKind(t, err, drive.DigestMismatch)
	if got, err := b.Get(t.Context(), who, v.ID); err != nil || got.State != "active" || fmt.Sprint(got.Received) != "[[0 2]]" {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := b.DeletePart(t.Context(), who, v.ID, 1); err != nil {
		t.Fatal(err)
	}
	at.flush(t)
	send(t, a, who, v, 1, data)
	complete(t, b, who, v)
	wantFile(t, a, who, "/f", data)
	complete(t, a, who, v)
	again, err := b.Begin(t.Context(), who, upload.Begin{Path: uploadtest.Path(t, "/g"), Size: drive.ByteSize(len(data)), Digests: blake(data)}, nil)
	if err != nil || again.State != "done" {
		t.Errorf("what was read back is not what was sent: %s, %v", again.State, err)
	}
	a.CheckLedger(t, who)
}

// A cancelled upload leaves nothing in the store, whatever its seal has created there.
func TestCancelOnS3(t *testing.T) {
	t.Parallel()
	a, b, at := onS3(t)
	who, data := a.Account(t, 0), random(9*mib)
	for _, sealed := range []bool{false, true} {
		v := a.Start(t, who, "/f", drive.ByteSize(len(data)))
		a.SendAll(t, who, v, data)
		if sealed {
			_, _, err := a.Complete(t.Context(), who, v.ID, upload.Complete{Digests: sha(nil)})
			wantKind(t, err, drive.DigestMismatch)
		}
		if err := b.Cancel(t.Context(), who, v.ID); err != nil {
			t.Fatal(err)
		}
		wantKind(t, a.Send(t, who, v, 0, data), drive.Gone)
		left := func(s blob.Entry) error { return fmt.Errorf("%s is left", s.Path) }
		if err := at.Blobs.List(t.Context(), left); err != nil {
			t.Error(err)
		}
		if err := at.Staging.ListStaged(t.Context(), left); err != nil {
			t.Error(err)
		}
	}
	a.CheckLedger(t, who)
}

// Two instances fill one upload by offset over S3 and Redis. The client of the first is gone
// without a word, and so are the journals once.
func TestAppendOnS3(t *testing.T) {
	t.Parallel()
	a, b, at := onS3(t)
	who, data := a.Account(t, 0), random(17*mib)
	v := a.Start(t, who, "/f", drive.ByteSize(len(data)))
	add(t, a.Sessions, who, v.ID, 0, data[:100_000])
	wantOffset(t, b.Sessions, who, v.ID, 100_000)
	add(t, b.Sessions, who, v.ID, 100_000, data[100_000:9*mib])
	dead, ended := hang(data[9*mib:10*mib]), make(chan error, 1)
	go func() {
		_, err := a.Append(t.Context(), who, v.ID, upload.Append{Offset: 9 * drive.MiB, Size: 8 * drive.MiB}, dead)
		ended <- err
	}()
	<-dead.reached
	wantOffset(t, b.Sessions, who, v.ID, 9*mib)
	add(t, b.Sessions, who, v.ID, 9*mib, data[9*mib:11*mib])
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the dead request has been accepted")
	}
	at.flush(t)
	wantOffset(t, a.Sessions, who, v.ID, 11*mib)
	add(t, a.Sessions, who, v.ID, 11*mib, data[11*mib:])
	a.CheckLedger(t, who)
	complete(t, b, who, v)
	wantFile(t, a, who, "/f", data)
}

// Partial uploads of two instances become one file on S3 and leave nothing else.
func TestConcatOnS3(t *testing.T) {
	t.Parallel()
	a, b, at := onS3(t)
	p := cutPartials(t, a, 1000, 9*mib, 5)
	v, err := join(t, b.Sessions, p)
	if err != nil {
		t.Fatal(err)
	}
	checkJoined(t, a, p, v.ID)
	b.Settle() // what it clears up follows its commit, which is all that a has seen
	left := func(s blob.Entry) error { return fmt.Errorf("%s is left", s.Path) }
	if err := at.Staging.ListStaged(t.Context(), left); err != nil {
		t.Error(err)
	}
	files := 0
	err = at.Blobs.List(t.Context(), func(blob.Entry) error { files++; return nil })
	if err != nil || files != 1 {
		t.Errorf("%d contents, %v", files, err)
	}
	a.CheckLedger(t, p.who)
}
