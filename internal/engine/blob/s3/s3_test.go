package s3

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
	"example.org/smartdrive/internal/testkit/servicetest"
)

// testOptions returns options for a prefix and namespace of this test on the real services.
func testOptions(t testing.TB) Options {
	t.Helper()
	u, err := url.Parse(servicetest.URL(t, servicetest.S3))
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	name := servicetest.Unique()
	servicetest.EmptyBucket(t, u, name)
	return Options{
		Endpoint: u.Host, Bucket: strings.Trim(u.Path, "/"), Prefix: name, AccessKey: u.User.Username(), SecretKey: secret,
		Insecure: u.Query().Get("insecure") == "true", Namespace: name, Redis: redisAt(t), SpoolDir: t.TempDir(),
		Log: slog.New(slog.DiscardHandler),
	}
}

// replyTime bounds the wait for Redis, which may be slow on a busy machine without being down.
const replyTime = time.Minute

// redisAt returns a client for this test only, so that its hooks do not affect others.
func redisAt(t testing.TB) redis.UniversalClient {
	t.Helper()
	o, err := redis.ParseURL(servicetest.URL(t, servicetest.Redis))
	if err != nil {
		t.Fatal(err)
	}
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ReadTimeout, o.WriteTimeout = replyTime, replyTime
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// bucketAt returns a Bucket over o, like another process.
func bucketAt(t testing.TB, o Options) *Bucket {
	t.Helper()
	if o.Transport == nil {
		transport := newTransport(stallTime, slog.Default())
		t.Cleanup(transport.CloseIdleConnections)
		o.Transport = transport
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openBucket(t testing.TB) *Bucket {
	t.Helper()
	return bucketAt(t, testOptions(t))
}

func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.RunStore(t, func(t *testing.T) blob.Store { return openBucket(t).Blobs })
}

func TestStaging(t *testing.T) {
	t.Parallel()
	blobtest.RunStaging(t, func(t *testing.T) blob.Staging { return openBucket(t).Staging })
}

func TestSealer(t *testing.T) {
	t.Parallel()
	blobtest.RunSealer(t, func(t *testing.T) (blob.Staging, blob.Store) {
		b := openBucket(t)
		return b.Staging, b.Blobs
	})
}

func TestTailer(t *testing.T) {
	t.Parallel()
	blobtest.RunTails(t, func(t *testing.T) (blob.Staging, blob.Store) {
		b := openBucket(t)
		return b.Staging, b.Blobs
	})
}

// TestSealerOnRedisCluster: all keys of an upload are in one slot, and listings ask every master.
func TestSealerOnRedisCluster(t *testing.T) {
	t.Parallel()
	addrs := strings.TrimPrefix(servicetest.URL(t, servicetest.RedisCluster), "redis://")
	blobtest.RunSealer(t, func(t *testing.T) (blob.Staging, blob.Store) {
		o := testOptions(t)
		c := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs:                    strings.Split(addrs, ","),
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			ReadTimeout:              replyTime, WriteTimeout: replyTime,
		})
		t.Cleanup(func() { _ = c.Close() })
		o.Redis = c
		b := bucketAt(t, o)
		return b.Staging, b.Blobs
	})
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	blobtest.RunQuarantine(t, func(t *testing.T) (blob.Store, blob.Quarantine) {
		b := openBucket(t)
		return b.Blobs, b.Quarantine
	})
}
