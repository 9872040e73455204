package s3

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/redis/go-redis/v9"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob/s3/pack"
)

// Options configure New. The zero value of each field is its default, where it has one.
type Options struct {
	// Endpoint is host[:port] of the store. Required, as is Bucket, which must exist.
	Endpoint string
	Bucket   string
	// Prefix begins all keys of this installation in the bucket, without slashes at its ends.
	// Default: none.
	Prefix string
	// Region of the bucket. Default us-east-1, except at Amazon, where it is asked for.
	Region string
	// AccessKey, SecretKey and, for temporary ones, SessionToken are the credentials.
	AccessKey, SecretKey, SessionToken string
	// Insecure means HTTP. Each piece of a body is signed then; with TLS it is not.
	Insecure bool

	// Redis holds the journals of staged uploads. Without it the Bucket has a Store and no Staging.
	Redis redis.UniversalClient
	// Namespace begins all keys in Redis. Default "smartdrive".
	Namespace string
	// Lease is how long a part belongs to an instance that no longer says so. Default 15 s.
	Lease time.Duration
	// SpoolDir takes bodies of undeclared length, which S3 does not. Default: the system's
	// directory for temporary files.
	SpoolDir string

	// Transport carries the requests. Default: one of its own, kept alive.
	Transport http.RoundTripper
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log receives what no caller can be told. Default slog.Default.
	Log *slog.Logger
}

func (o *Options) setDefaults() {
	if o.Region == "" && !strings.HasSuffix(o.Endpoint, "amazonaws.com") {
		o.Region = "us-east-1"
	}
	o.Namespace = cmp.Or(o.Namespace, "smartdrive")
	if o.Lease <= 0 {
		o.Lease = 15 * time.Second
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Transport == nil {
		o.Transport = newTransport(stallTime, o.Log)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Bucket is a place in a bucket with both ports over it. Any number of processes may have one each.
type Bucket struct {
	Blobs      *Store
	Staging    *Staging // nil without Redis
	Quarantine *Quarantine

	api       *minio.Core
	transport http.RoundTripper // of api
	name      string
	prefix    string // of all keys; empty or with a slash at its end
	spool     string
	now       func() time.Time
	log       *slog.Logger

	// unconditional: the store refuses If-None-Match; see Check.
	unconditional atomic.Bool
	// singly: the store does not know DeleteObjects; see Store.RemoveAll.
	singly atomic.Bool
}

// attempts is how often a request is sent that may be repeated: all but those whose body is a
// client's and comes as a stream.
const attempts = 4

// New returns a Bucket. It does no I/O: Check does.
func New(o Options) (*Bucket, error) {
	o.setDefaults()
	api, err := minio.NewCore(o.Endpoint, &minio.Options{
		Creds:  credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.SessionToken),
		Secure: !o.Insecure, Region: o.Region, Transport: o.Transport, MaxRetries: attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("s3 at %s: %w", o.Endpoint, err)
	}
	b := &Bucket{api: api, transport: o.Transport, name: o.Bucket, spool: o.SpoolDir, now: o.Now, log: o.Log}
	if p := strings.Trim(o.Prefix, "/"); p != "" {
		b.prefix = p + "/"
	}
	b.Blobs, b.Quarantine = &Store{b, pack.New(packed{b})}, &Quarantine{b}
	if o.Redis != nil {
		b.Staging = &Staging{
			b: b, j: journals{redis: o.Redis, batch: &batcher{redis: o.Redis}, prefix: o.Namespace}, lease: o.Lease, owner: uuid.NewString(),
			writers: make(map[drive.UploadID]*writers),
		}
	}
	return b, nil
}
