package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"smartdrive/internal/base/config"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/s3"
	"smartdrive/internal/engine/stream/dispatch"
	"smartdrive/internal/engine/stream/kafka"
	"smartdrive/internal/engine/stream/outbox"
	"smartdrive/internal/engine/timer/redis"
	"smartdrive/internal/head/server"
	"smartdrive/internal/intake/ingest"
)

// shared is what several instances stand on beside the database. The zero value is that of an
// installation with one.
type shared struct {
	queue   *redis.Queue // timers
	journal goredis.UniversalClient
	bucket  *s3.Bucket
	broker  *kafka.Stream // nil without Kafka
}

// close ends the connections.
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

// loops are those that the components' own clients need.
func (s *shared) loops() []func(context.Context) error {
	if s.queue == nil {
		return nil
	}
	return []func(context.Context) error{s.queue.Run}
}

// checks are what all instances miss together when it is away.
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

// openRedis opens the queue of timers and the client of the journal, which keep their connections
// apart: a burst of one must not make the other wait.
func (g *ground) openRedis(ctx context.Context) error {
	r := g.cfg.Redis
	if g.shared.queue == nil {
		g.shared.queue = redis.New(redis.Options{
			Addrs: r.Addrs, User: r.User, Password: string(r.Password), DB: r.DB, Sentinel: r.Sentinel, Cluster: r.Cluster, TLS: r.TLS,
			Namespace: g.cfg.Namespace, Stepped: g.onStep,
		})
	}
	notes, err := g.shared.queue.Check(ctx)
	for _, note := range notes {
		g.log.WarnContext(ctx, "Redis is not set up as well as it could be", "note", note)
	}
	return err
}

func journalClient(r *config.Redis) goredis.UniversalClient {
	opt := &goredis.UniversalOptions{
		Addrs: r.Addrs, Username: r.User, Password: string(r.Password), DB: r.DB, MasterName: r.Sentinel, IsClusterMode: r.Cluster,
		// Notices of maintenance are asked for with a command that most servers refuse.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if r.TLS {
		opt.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return goredis.NewUniversalClient(opt)
}

// claimNamespace makes sure that the names in Redis, and so those in Kafka, are this
// installation's: two that share servers and forget --namespace would take each other's timers. A
// Redis that was emptied is claimed again.
func (g *ground) claimNamespace(ctx context.Context) error {
	key := "{" + g.cfg.Namespace + ":installation}"
	err := g.shared.journal.SetNX(ctx, key, g.ID, 0).Err()
	owner := ""
	if err == nil {
		owner, err = g.shared.journal.Get(ctx, key).Result()
	}
	if err != nil {
		return drive.Wrap(fmt.Errorf("claim the namespace in Redis: %w", err), drive.Unavailable)
	}
	if owner != g.ID {
		return fmt.Errorf("the namespace %q belongs to installation %s, and this is %s: choose another --namespace", g.cfg.Namespace, owner, g.ID)
	}
	return nil
}

// openBucket opens the store of contents and checks that it can do what is needed.
func (g *ground) openBucket(ctx context.Context) error {
	if g.shared.bucket == nil {
		g.shared.journal = journalClient(g.cfg.Redis)
		bucket, err := s3.New(bucketOptions(g.cfg, g.log, contentsPlace(g.cfg), g.shared.journal))
		if err != nil {
			return err
		}
		g.shared.bucket = bucket
		g.marks = inBucket{bucket}
		g.bytes = storage{store: bucket.Blobs, staging: bucket.Staging, quarantine: bucket.Quarantine}
	}
	return g.shared.bucket.Check(ctx)
}

// bucketOptions are those of a place of contents, with the journals of its uploads.
func bucketOptions(cfg config.Config, log *slog.Logger, c config.Contents, journal goredis.UniversalClient) s3.Options {
	return s3.Options{
		Endpoint: c.S3.Endpoint, Bucket: c.S3.Bucket, Prefix: c.S3.Prefix, Region: c.S3.Region, Insecure: c.S3.Insecure,
		AccessKey: c.S3.Key, SecretKey: string(c.S3.Secret), SessionToken: string(c.S3.Session),
		Redis: journal, Namespace: cfg.Namespace, SpoolDir: cfg.Data, Log: log,
	}
}

// inBucket keeps the mark in the bucket.
type inBucket struct{ *s3.Bucket }

func (b inBucket) String() string { return "the bucket" }

// Occupied implements marks.
func (b inBucket) Occupied(ctx context.Context) (bool, error) {
	found := errors.New("something is there")
	err := b.Blobs.List(ctx, func(blob.Stray) error { return found })
	if err == nil {
		err = b.Staging.ListStaged(ctx, func(blob.Stray) error { return found })
	}
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

// checkKafka asks the brokers and makes the topics. The stream itself is made when it is known
// whose records it carries.
func (g *ground) checkKafka(ctx context.Context) error {
	probe, err := g.newBroker("", nil)
	if err != nil {
		return err
	}
	return errors.Join(probe.Check(ctx), probe.Close())
}

// newBroker makes the stream of what a source tells, of which box keeps what is not sent yet and
// what is dead.
func (g *ground) newBroker(source string, box *outbox.Outbox) (*kafka.Stream, error) {
	k := g.cfg.Kafka
	return kafka.New(kafka.Options{
		Brokers: k.Brokers, TLS: k.TLS, SASL: k.SASL, User: k.User, Password: string(k.Password),
		Namespace: g.cfg.Namespace, Source: source, Backlog: box, Graveyard: box,
		Consumers: append(dispatch.Subscriptions(), ingest.Subscription()), Log: g.log,
		Targets: g.cfg.KafkaDelayTopics,
	})
}
