package contents_test

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/move/contents"
	"example.org/smartdrive/internal/testkit/servicetest"
)

func directory(t *testing.T) contents.Side {
	t.Helper()
	d, err := local.Open(t.Context(), local.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return contents.Side{Name: "directory", Store: d.Blobs, Staging: d.Staging, Quarantine: d.Quarantine}
}

func bucket(t *testing.T) contents.Side {
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
	o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute // a slow machine is no outage
	journal := redis.NewClient(o)
	t.Cleanup(func() { _ = journal.Close() })
	secret, _ := u.User.Password()
	name := servicetest.Unique()
	servicetest.EmptyBucket(t, u, name)
	b, err := s3.New(s3.Options{
		Endpoint: u.Host, Bucket: strings.Trim(u.Path, "/"), Prefix: name, AccessKey: u.User.Username(), SecretKey: secret,
		Insecure: u.Query().Get("insecure") == "true", Namespace: name, Redis: journal, SpoolDir: t.TempDir(),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return contents.Side{Name: "bucket", Store: b.Blobs, Staging: b.Staging, Quarantine: b.Quarantine}
}

// setups are the pairs that the conformance suites run on.
var setups = map[string]func(t *testing.T) *contents.Pair{
	"a directory alone":                   func(t *testing.T) *contents.Pair { return contents.NewPair(directory(t)) },
	"two directories":                     func(t *testing.T) *contents.Pair { return both(directory(t), directory(t), contents.First) },
	"two directories, the second leads":   func(t *testing.T) *contents.Pair { return both(directory(t), directory(t), contents.Second) },
	"a directory and a bucket":            func(t *testing.T) *contents.Pair { return both(directory(t), bucket(t), contents.First) },
	"a directory and a bucket that leads": func(t *testing.T) *contents.Pair { return both(directory(t), bucket(t), contents.Second) },
	"a bucket and a directory that leads": func(t *testing.T) *contents.Pair { return both(bucket(t), directory(t), contents.Second) },
}

func both(first, second contents.Side, lead contents.SideIndex) *contents.Pair {
	p := contents.NewPair(first)
	p.Attach(second)
	p.SetLeader(lead)
	return p
}

func eachSetup(t *testing.T, suite func(t *testing.T, open func(t *testing.T) *contents.Pair)) {
	t.Helper()
	for name, open := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite(t, open)
		})
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	eachSetup(t, func(t *testing.T, open func(t *testing.T) *contents.Pair) {
		blobtest.RunStore(t, func(t *testing.T) blob.Store { return open(t).Blobs })
	})
}

func TestStaging(t *testing.T) {
	t.Parallel()
	eachSetup(t, func(t *testing.T, open func(t *testing.T) *contents.Pair) {
		blobtest.RunStaging(t, func(t *testing.T) blob.Staging { return open(t).Uploads })
	})
}

func TestSealer(t *testing.T) {
	t.Parallel()
	eachSetup(t, func(t *testing.T, open func(t *testing.T) *contents.Pair) {
		blobtest.RunSealer(t, func(t *testing.T) (blob.Staging, blob.Store) {
			p := open(t)
			return p.Uploads, p.Blobs
		})
	})
}

func TestTailer(t *testing.T) {
	t.Parallel()
	eachSetup(t, func(t *testing.T, open func(t *testing.T) *contents.Pair) {
		blobtest.RunTails(t, func(t *testing.T) (blob.Staging, blob.Store) {
			p := open(t)
			return p.Uploads, p.Blobs
		})
	})
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	eachSetup(t, func(t *testing.T, open func(t *testing.T) *contents.Pair) {
		blobtest.RunQuarantine(t, func(t *testing.T) (blob.Store, blob.Quarantine) {
			p := open(t)
			return p.Blobs, p.Quarantine
		})
	})
}

// The pair keeps the abilities of its sides: an upload adopts bytes at its own side and copies
// those of the other.
func TestAdoptNeedsOneSide(t *testing.T) {
	t.Parallel()
	p := contents.NewPair(directory(t))
	begin := func() blob.Ref {
		ref := blobtest.NewRef(blobtest.PartSize)
		if err := p.Uploads.Create(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		return ref
	}
	fill := func(ref blob.Ref) {
		_, err := blobtest.Send(t.Context(), p.Uploads, ref, 1, 0, blobtest.Bytes(1, blobtest.PartSize))
		if err == nil {
			_, err = p.Uploads.Fence(t.Context(), ref, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	adopt := func(ref, from blob.Ref, want bool) {
		t.Helper()
		if adopted, err := p.Uploads.Adopt(t.Context(), ref, from); err != nil || adopted != want {
			t.Errorf("adopted %t, %v", adopted, err)
		}
	}
	a, b := begin(), begin()
	fill(a)
	adopt(b, a, true)
	c := begin()
	fill(c)
	p.Attach(directory(t))
	p.SetLeader(contents.Second)
	d := begin()
	adopt(d, c, false)
	fill(d)
	adopt(begin(), d, true)
}
