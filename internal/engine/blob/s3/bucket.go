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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/s3/pack"
)

// Options configure New. The zero value of a field selects its default.
type Options struct {
	// Endpoint is the host[:port] of the store. Endpoint and Bucket are required; the bucket must
	// exist.
	Endpoint string
	Bucket   string
	// Prefix precedes all keys of this installation in the bucket. Slashes at its ends are trimmed.
	// Default: none.
	Prefix string
	// Region is the bucket's region. Default: us-east-1, or looked up if the endpoint is at Amazon.
	Region string
	// AccessKey, SecretKey and, for temporary credentials, SessionToken authenticate requests.
	AccessKey, SecretKey, SessionToken string
	// Insecure selects HTTP. Each chunk of a body is then signed; with TLS it is not.
	Insecure bool

	// Redis holds the journals of staged uploads. If nil, Bucket.Staging is nil.
	Redis redis.UniversalClient
	// Namespace precedes all keys in Redis. Default: smartdrive.
	Namespace string
	// Lease is the time after which a part lease that is not renewed expires. Default: 15 s.
	Lease time.Duration
	// SpoolDir holds bodies of undeclared length until their length is known. Default: the system's
	// temporary directory.
	SpoolDir string

	// Transport sends the requests. Default: one with keep-alive and stall detection.
	Transport http.RoundTripper
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Log receives warnings that no caller can be told. Default: slog.Default.
	Log *slog.Logger
}

// setDefaults replaces zero values by their defaults.
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

// Bucket is a prefix in a bucket with its Store, Staging and Quarantine. Any number of processes
// may use the same prefix.
type Bucket struct {
	Blobs      *Store
	Staging    *Staging // nil without Redis
	Quarantine *Quarantine

	api       *minio.Core
	transport http.RoundTripper // used by api and for requests without a signature
	name      string            // of the bucket
	prefix    string            // of all keys; empty, or ending in a slash
	spool     string            // Options.SpoolDir
	now       func() time.Time
	log       *slog.Logger

	// noIfNoneMatch reports that the store does not support If-None-Match; set by Check.
	noIfNoneMatch atomic.Bool
	// noBulkDelete reports that the store does not support DeleteObjects; set by removeKeys.
	noBulkDelete atomic.Bool
}

// attempts is the number of times a repeatable request is sent. A request that streams a client's
// body is not repeatable.
const attempts = 4

// New returns a Bucket. It does no I/O; call Check before use. Without Options.Redis the Bucket has
// no Staging. It fails only if the endpoint is malformed.
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
	b.Blobs, b.Quarantine = &Store{b, pack.New(packObjects{b})}, &Quarantine{b}
	if o.Redis != nil {
		b.Staging = &Staging{
			b: b, j: journals{redis: o.Redis, batch: &batcher{redis: o.Redis}, prefix: o.Namespace}, lease: o.Lease, owner: uuid.NewString(),
			writers: make(map[drive.UploadID]*writers),
		}
	}
	return b, nil
}
