package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/engine/stream/dispatch"
	"example.org/smartdrive/internal/engine/stream/kafka"
	"example.org/smartdrive/internal/engine/stream/outbox"
	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/intake/ingest"
)

// shared holds the components besides the database that several instances share. It is zero for a
// single instance.
type shared struct {
	queue   *redis.Queue // timers
	journal goredis.UniversalClient
	bucket  *s3.Bucket
	broker  *kafka.Stream // nil without Kafka
}

// close closes the connections that are open and returns all failures joined.
func (s *shared) close() error {
	var errs []error
	if s.broker != nil {
		errs = append(errs, s.broker.Close())
	}
	if s.queue != nil {
		errs = append(errs, s.queue.Close())
	}
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	return errors.Join(errs...)
}

// loops returns the loops that the components' clients need.
func (s *shared) loops() []func(context.Context) error {
	if s.queue == nil {
		return nil
	}
	return []func(context.Context) error{s.queue.Run}
}

// checks returns the readiness checks of Redis and Kafka, as far as they are used; nil for none. A
// failed one does not make the instance unready (Soft).
func (s *shared) checks() []server.Check {
	var all []server.Check
	if s.journal != nil {
		all = append(all, server.Check{Name: "redis", Soft: true, Func: func(ctx context.Context) error { return s.journal.Ping(ctx).Err() }})
	}
	if s.broker != nil {
		all = append(all, server.Check{Name: "kafka", Soft: true, Func: s.broker.Ping})
	}
	return all
}

// openRedis opens the timer queue in p.shared and logs settings of Redis that are not recommended.
// The journal has a client of its own, so that bursts in one do not delay the other. It fails if
// Redis cannot be reached or used.
func (p *platform) openRedis(ctx context.Context) error {
	r := p.cfg.Redis
	if p.shared.queue == nil {
		p.shared.queue = redis.New(redis.Options{
			Addrs: r.Addrs, User: r.User, Password: string(r.Password), DB: r.DB, Sentinel: r.Sentinel, Cluster: r.Cluster, TLS: r.TLS,
			Namespace: p.cfg.Namespace, OnClockStep: p.clockStepped,
		})
	}
	warnings, err := p.shared.queue.Check(ctx)
	for _, warning := range warnings {
		p.log.WarnContext(ctx, "Redis is not configured as recommended", "warning", warning)
	}
	return err
}

// journalClient returns a Redis client for the journals of uploads. It does not connect; the caller
// closes it.
func journalClient(r *config.Redis) goredis.UniversalClient {
	opt := &goredis.UniversalOptions{
		Addrs: r.Addrs, Username: r.User, Password: string(r.Password), DB: r.DB, MasterName: r.Sentinel, IsClusterMode: r.Cluster,
		// Subscribing to maintenance notices needs a command that most servers refuse.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if r.TLS {
		opt.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return goredis.NewUniversalClient(opt)
}

// claimNamespace checks that the namespace in Redis and Kafka is this installation's, since two
// installations with the same --namespace would take each other's timers. It claims an empty Redis
// again. It fails if the namespace belongs to another installation or Redis cannot be reached.
func (p *platform) claimNamespace(ctx context.Context) error {
	key := "{" + p.cfg.Namespace + ":installation}"
	err := p.shared.journal.SetNX(ctx, key, p.ID, 0).Err()
	owner := ""
	if err == nil {
		owner, err = p.shared.journal.Get(ctx, key).Result()
	}
	if err != nil {
		return drive.Wrap(fmt.Errorf("claim the namespace in Redis: %w", err), drive.Unavailable)
	}
	if owner != p.ID {
		return fmt.Errorf("the namespace %q belongs to installation %s, and this is %s: choose another --namespace", p.cfg.Namespace, owner, p.ID)
	}
	return nil
}

// openBucket opens the bucket of contents and checks that it supports what is needed. It sets
// p.shared.bucket and fails with the error of that check.
func (p *platform) openBucket(ctx context.Context) error {
	if p.shared.bucket == nil {
		p.shared.journal = journalClient(p.cfg.Redis)
		bucket, err := s3.New(bucketOptions(p.cfg, p.log, contentsLocation(p.cfg), p.shared.journal))
		if err != nil {
			return err
		}
		p.shared.bucket = bucket
		p.marks = bucketMarks{bucket}
		p.storage = storage{store: bucket.Blobs, staging: bucket.Staging, quarantine: bucket.Quarantine}
	}
	return p.shared.bucket.Check(ctx)
}

// bucketOptions returns the options for a store of contents in a bucket, with the journals of its
// uploads.
func bucketOptions(cfg config.Config, log *slog.Logger, c config.BlobLocation, journal goredis.UniversalClient) s3.Options {
	return s3.Options{
		Endpoint: c.S3.Endpoint, Bucket: c.S3.Bucket, Prefix: c.S3.Prefix, Region: c.S3.Region, Insecure: c.S3.Insecure,
		AccessKey: c.S3.Key, SecretKey: string(c.S3.Secret), SessionToken: string(c.S3.Session),
		Redis: journal, Namespace: cfg.Namespace, SpoolDir: cfg.Data, Log: log,
	}
}

// bucketMarks keeps the mark in the bucket.
type bucketMarks struct{ *s3.Bucket }

func (b bucketMarks) String() string { return "the bucket" }

// Occupied reports whether the bucket contains any stored or staged content. It fails with the
// error of listing.
func (b bucketMarks) Occupied(ctx context.Context) (bool, error) {
	found := errors.New("something is there")
	err := b.Blobs.List(ctx, func(blob.Entry) error { return found })
	if err == nil {
		err = b.Staging.ListStaged(ctx, func(blob.Entry) error { return found })
	}
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

// checkKafka checks the brokers and creates the topics with a connection of its own, which it
// closes. The stream is opened later, once the source of its records is known.
func (p *platform) checkKafka(ctx context.Context) error {
	probe, err := p.newBroker("", nil)
	if err != nil {
		return err
	}
	return errors.Join(probe.Check(ctx), probe.Close())
}

// newBroker returns the Kafka stream for records of source. box keeps unsent records and dead
// letters. It fails if the client cannot be constructed; the caller closes the stream.
func (p *platform) newBroker(source string, box *outbox.Outbox) (*kafka.Stream, error) {
	k := p.cfg.Kafka
	return kafka.New(kafka.Options{
		Brokers: k.Brokers, TLS: k.TLS, SASL: k.SASL, User: k.User, Password: string(k.Password),
		Namespace: p.cfg.Namespace, Source: source, Backlog: box, DeadLetters: box,
		Consumers: append(dispatch.Subscriptions(), ingest.Subscription()), Log: p.log,
		Targets: p.cfg.KafkaDelayTopics,
	})
}
