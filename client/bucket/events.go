package bucket

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/intake/bundle"
)

// notification is an S3 event notification, as AWS, MinIO and versitygw send it (Amazon S3 User
// Guide, "Event message structure").
type notification struct {
	Records []struct {
		EventName string `json:"eventName"`
		S3        struct {
			Bucket struct {
				Name string `json:"name"`
			} `json:"bucket"`
			Object struct {
				Key string `json:"key"` // URL query encoding
			} `json:"object"`
		} `json:"s3"`
	}
}

// subscribe returns the keys of created objects that a Kafka topic names; a nil channel without a
// topic. The caller must call stop, which ends the subscription and waits for it. It fails if the
// client cannot be constructed.
func (f *Forwarder) subscribe(ctx context.Context) (keys <-chan string, stop func(), err error) {
	if f.opt.Topic == "" {
		return nil, func() {}, nil
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(f.opt.Brokers...), kgo.ConsumerGroup(f.opt.Group), kgo.ConsumeTopics(f.opt.Topic))
	if err != nil {
		return nil, nil, fmt.Errorf("subscribe to %s: %w", f.opt.Topic, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	out, done := make(chan string), make(chan struct{})
	go func() {
		defer close(done)
		f.consume(ctx, consumer, out)
	}()
	return out, func() {
		cancel()
		consumer.Close()
		<-done
	}, nil
}

// consume sends the keys of created objects, from bucket events in Kafka, to out until ctx ends.
// Errors are logged; bundles are then still found by listing.
func (f *Forwarder) consume(ctx context.Context, consumer *kgo.Client, out chan<- string) {
	for ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		fetches.EachError(func(topic string, _ int32, err error) {
			if ctx.Err() == nil {
				f.opt.Log.Warn("cannot read bucket events; bundles are still found by listing", "topic", topic, "error", err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			for _, key := range createdKeys(r.Value, f.opt.Bucket.Bucket) {
				select {
				case out <- key:
				case <-ctx.Done():
				}
			}
		})
	}
}

// createdKeys returns the keys of the objects that a notification reports as created in the bucket.
// Other messages of the topic yield none.
func createdKeys(value []byte, bucketName string) (keys []string) {
	var n notification
	if json.Unmarshal(value, &n) != nil {
		return nil
	}
	for _, r := range n.Records {
		key, err := url.QueryUnescape(r.S3.Object.Key)
		name := strings.TrimPrefix(r.EventName, "s3:")
		if err == nil && r.S3.Bucket.Name == bucketName && strings.HasPrefix(name, "ObjectCreated:") {
			keys = append(keys, key)
		}
	}
	return keys
}

// forwardKey forwards the bundle sealed by an object. Objects other than meta.json are ignored.
func (f *Forwarder) forwardKey(ctx context.Context, key string) {
	rest, ok := strings.CutPrefix(key, f.prefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || parts[2] != string(bundle.MetaName) || !bundle.IsSource(parts[0]) || !bundle.IsID(parts[1]) {
		return
	}
	if _, err := f.forward(ctx, parts[0], parts[1]); err != nil && ctx.Err() == nil {
		f.opt.Log.Warn("cannot forward a bundle; the next pass tries again", "source", parts[0], "bundle", parts[1], "error", err)
	}
}
