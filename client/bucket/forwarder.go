package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/intake/bundle"
)

const (
	recentAge   = 48 * time.Hour   // age of ids that each pass lists
	fullEvery   = time.Hour        // between passes over all ids
	memberGrace = 15 * time.Minute // how long a sealed bundle waits for members, as on the server
)

// Options configure New. Client, Bucket and Log are required.
type Options struct {
	Client *client.Client
	Bucket config.S3     // the bucket, and the prefix above SOURCE
	Every  time.Duration // between passes; default 1 minute
	// Brokers and Topic name a Kafka topic with the bucket's event notifications. Without a topic
	// the forwarder only lists.
	Brokers []string
	Topic   string
	Group   string // Kafka consumer group of all forwarders of the topic; default smartdrive-bucket
	Log     *slog.Logger
}

// Forwarder copies sealed bundles from a bucket to a server. One goroutine uses it.
type Forwarder struct {
	opt      Options
	api      *minio.Client
	up       *client.Uploader
	prefix   string                         // prefix of all keys: empty, or ending with a slash
	known    map[string]map[string]struct{} // ids that the server has, by source
	lastFull time.Time                      // when all ids were last listed
}

// Counts are the results of a pass.
type Counts struct {
	Forwarded int `json:"forwarded"` // bundles copied
	Waiting   int `json:"waiting"`   // sealed bundles whose members are not all there
	Failed    int `json:"failed"`    // bundles that could not be copied; the next pass tries again
}

// New returns a Forwarder. It sends no request. It fails for an invalid endpoint or credentials
// that minio refuses.
func New(opt Options) (*Forwarder, error) {
	opt.Every, opt.Group = cmp.Or(opt.Every, time.Minute), cmp.Or(opt.Group, "smartdrive-bucket")
	b := opt.Bucket
	api, err := minio.New(b.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(b.Key, string(b.Secret), string(b.Session)), Secure: !b.Insecure, Region: b.Region,
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s at %s: %w", b.Bucket, b.Endpoint, err)
	}
	up, err := opt.Client.Uploader(client.UploadOptions{RetryFor: time.Minute})
	if err != nil {
		return nil, err
	}
	f := &Forwarder{opt: opt, api: api, up: up, known: map[string]map[string]struct{}{}}
	if b.Prefix != "" {
		f.prefix = b.Prefix + "/"
	}
	return f, nil
}

// Run passes over the bucket until ctx is done, and then returns nil. It forwards bundles named by
// events at once. An error of a pass is logged; the next pass repeats it. Run fails only if it
// cannot subscribe to the topic.
func (f *Forwarder) Run(ctx context.Context) error {
	events, stop, err := f.subscribe(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for {
		counts, err := f.RunPass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			f.opt.Log.Warn("cannot forward the bucket; the next pass tries again", "bucket", f.opt.Bucket.Bucket, "in", f.opt.Every, "error", err)
		} else if counts != (Counts{}) {
			f.opt.Log.Info("bucket pass finished", "forwarded", counts.Forwarded, "waiting", counts.Waiting, "failed", counts.Failed)
		}
		next := time.After(f.opt.Every)
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return nil
			case key := <-events:
				f.forwardKey(ctx, key)
			case <-next:
				waits = false
			}
		}
	}
}

// RunPass forwards each sealed bundle that the server lacks: bundles with ids of the last 48 hours,
// and once an hour all bundles. Once an hour it also forwards rejected bundles again whose
// meta.json was replaced. A bundle that fails is logged and counted, and does not stop the others.
//
// It fails if the bucket or the server does not answer or refuses the credentials.
func (f *Forwarder) RunPass(ctx context.Context) (counts Counts, err error) {
	began := time.Now()
	full := began.Sub(f.lastFull) >= fullEvery
	for source, err := range f.folders(ctx, f.prefix, "") {
		if err != nil {
			return counts, err
		}
		if !bundle.IsSource(source) {
			continue
		}
		if err := f.passSource(ctx, source, full, &counts); err != nil {
			return counts, err
		}
	}
	if full {
		f.lastFull = began
	}
	return counts, nil
}

// passSource forwards the bundles of one source that were not forwarded before and adds the results
// to counts. Unless full, it lists only bundles of the last recentAge. A failed listing ends the
// pass.
func (f *Forwarder) passSource(ctx context.Context, source string, full bool, counts *Counts) error {
	known, err := f.knownOf(ctx, source, full, counts)
	if err != nil {
		return err
	}
	above, after := f.prefix+source+"/", ""
	if !full {
		after = above + firstID(time.Now().Add(-recentAge))
	}
	for id, err := range f.folders(ctx, above, after) {
		if err != nil {
			return err
		}
		if _, has := known[id]; has || !bundle.IsID(id) {
			continue
		}
		if err := f.count(ctx, source, id, counts); err != nil {
			return err
		}
	}
	return nil
}

// knownOf returns the ids of the source's bundles that the server has. With full set it asks the
// server for all of them and forwards rejected ones again. The map is that of f.known and grows
// with later forwards. It fails with the error of a listing.
func (f *Forwarder) knownOf(ctx context.Context, source string, full bool, counts *Counts) (map[string]struct{}, error) {
	if known := f.known[source]; known != nil && !full {
		return known, nil
	}
	known := map[string]struct{}{}
	var rejected []string
	for b, err := range f.opt.Client.AllBundles(ctx, url.Values{"source": {source}}) {
		if err != nil {
			return nil, fmt.Errorf("list the bundles of %s: %w", source, err)
		}
		known[b.SenderID] = struct{}{}
		if b.State == "rejected" {
			rejected = append(rejected, b.SenderID)
		}
	}
	f.known[source] = known
	for _, id := range rejected {
		if err := f.count(ctx, source, id, counts); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// count forwards one bundle and adds the result to counts. A failure that concerns this bundle only
// is counted and logged, and count returns nil. It returns an error, which ends the pass, if ctx
// ended or every bundle would fail.
func (f *Forwarder) count(ctx context.Context, source, id string, counts *Counts) error {
	did, err := f.forward(ctx, source, id)
	switch {
	case err == nil && did == forwarded:
		counts.Forwarded++
	case err == nil && did == incomplete:
		counts.Waiting++
	case err == nil:
	case ctx.Err() != nil || failsAll(err):
		return err
	default:
		counts.Failed++
		f.opt.Log.Warn("cannot forward a bundle; the next pass tries again", "source", source, "bundle", id, "error", err)
	}
	return nil
}

// failsAll reports whether an error affects all bundles: no reply, or refused credentials.
func failsAll(err error) bool {
	if s3 := minio.ToErrorResponse(err); s3.StatusCode != 0 {
		return s3.StatusCode == http.StatusForbidden || s3.StatusCode >= http.StatusInternalServerError || s3.Code == minio.NoSuchBucket
	}
	if errors.Is(err, errDiffers) || errors.Is(err, errTooLarge) {
		return false
	}
	var problem *client.Problem
	return !errors.As(err, &problem) || client.IsCode(err, client.CodeUnauthenticated, client.CodeForbidden)
}

// folders yields the names of the folders directly below a prefix, of those after a key. An error
// is the last thing it yields.
func (f *Forwarder) folders(ctx context.Context, prefix, after string) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for o := range f.api.ListObjectsIter(ctx, f.opt.Bucket.Bucket, minio.ListObjectsOptions{Prefix: prefix, StartAfter: after}) {
			if o.Err != nil {
				yield("", fmt.Errorf("list bucket %s below %q: %w", f.opt.Bucket.Bucket, prefix, o.Err))
				return
			}
			if strings.HasSuffix(o.Key, "/") && !yield(path.Base(o.Key), nil) {
				return
			}
		}
	}
}

// firstID returns the lowest UUIDv7 of a time (RFC 9562 §5.7: 48 bits of Unix milliseconds first).
func firstID(t time.Time) string {
	var id uuid.UUID
	ms := uint64(t.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id.String()
}
