package demo

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Services are the URLs of the services shared by the instances of a cluster, in the format of
// "serve". The demo creates its own database on the server of DB (the database name in the URL is
// ignored), and uses its own key namespace and bucket prefix.
type Services struct {
	DB, Redis, Kafka, Blobs string
}

// complete reports whether all URLs are set.
func (s Services) complete() bool {
	return s.DB != "" && s.Redis != "" && s.Kafka != "" && s.Blobs != ""
}

// servicesMissing is the error of a cluster without all Services.
var servicesMissing = bilingual{
	"--cluster needs --db, --redis, --kafka and --blobs s3://...; \"make services && set -a && . .services/env && set +a\" starts all four",
	"--cluster 需要 --db、--redis、--kafka 和 --blobs s3://...；“make services && set -a && . .services/env && set +a” 可启动全部四项服务",
}

// cluster is the shared state of two instances, and the demo's connections to it.
type cluster struct {
	name  string   // name of the database and prefix of all keys, topics and objects
	env   []string // environment of an instance
	cfg   config.Config
	admin *sql.DB // connection to the database server
	db    *sqldb.DB
	redis redis.UniversalClient
	kafka *kgo.Client
	s3    *minio.Client
}

// newCluster connects to the services and creates a database of its own. The caller must call
// remove, also after an error with a non-nil cluster.
func newCluster(ctx context.Context, s Services) (*cluster, error) {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	c := &cluster{name: "demo" + hex.EncodeToString(random)}
	if err := c.configure(s); err != nil {
		return nil, err
	}
	return c, c.connect(ctx)
}

// configure parses the URLs as "serve" does. It fails if one is missing or needs TLS or a login
// that the demo does not support.
func (c *cluster) configure(s Services) error {
	db, dbErr := url.Parse(s.DB)
	blobs, blobsErr := url.Parse(s.Blobs)
	if dbErr != nil || blobsErr != nil { // hide the errors, which contain passwords
		return errors.New("--db or --blobs is not a URL")
	}
	db.Path = "/" + c.name
	c.env = []string{
		"SMARTDRIVE_DB=" + db.String(), "SMARTDRIVE_REDIS=" + s.Redis, "SMARTDRIVE_KAFKA=" + s.Kafka,
		"SMARTDRIVE_BLOBS=" + blobs.JoinPath(c.name).String(), "SMARTDRIVE_NAMESPACE=" + c.name, "SMARTDRIVE_START_WAIT=2m",
	}
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	config.AddFlags(flags)
	var err error
	c.cfg, err = config.Load(flags, append(withoutSettings(os.Environ()), c.env...), os.ReadFile)
	switch {
	case err != nil:
		return err
	case c.cfg.MySQL == nil || c.cfg.Redis == nil || c.cfg.Kafka == nil || c.cfg.S3 == nil:
		return errors.New(servicesMissing.en)
	case c.cfg.Kafka.TLS || c.cfg.Kafka.User != "" || c.cfg.MySQL.TLS != "":
		return errors.New("--cluster reads Kafka and MySQL without TLS and Kafka without a login")
	}
	return nil
}

// connect creates the database and connects to all services. On an error some connections may be
// open; remove closes them.
func (c *cluster) connect(ctx context.Context) (err error) {
	m, r, s := c.cfg.MySQL, c.cfg.Redis, c.cfg.S3
	server := mysql.NewConfig()
	server.User, server.Passwd, server.Net, server.Addr = m.User, string(m.Password), "tcp", m.Addr
	if c.admin, err = sql.Open("mysql", server.FormatDSN()); err != nil {
		return err
	}
	if _, err := c.admin.ExecContext(ctx, "CREATE DATABASE "+c.name+" CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"); err != nil {
		return fmt.Errorf("create a database at %s: %w", m.Addr, err)
	}
	options := &redis.UniversalOptions{
		Addrs: r.Addrs, Username: r.User, Password: string(r.Password), DB: r.DB, MasterName: r.Sentinel, IsClusterMode: r.Cluster,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if r.TLS {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c.redis = redis.NewUniversalClient(options)
	if c.kafka, err = kgo.NewClient(kgo.SeedBrokers(c.cfg.Kafka.Brokers...)); err != nil {
		return err
	}
	c.s3, err = minio.New(s.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(s.Key, string(s.Secret), string(s.Session)), Secure: !s.Insecure, Region: s.Region,
	})
	return err
}

// remove deletes everything that the cluster has created in the services and closes the
// connections. It works for a minute even if ctx is canceled, and returns all failures joined.
func (c *cluster) remove(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if c.db != nil {
		err = c.db.Close()
	}
	if c.admin != nil {
		// InnoDB may delete the file of a dropped table late and then refuses to drop the
		// database; retry.
		var last error
		err = errors.Join(err, waitUntil(ctx, "the database to be dropped", func() (bool, error) {
			_, last = c.admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+c.name)
			return last == nil, nil
		}), last, c.admin.Close())
	}
	if c.redis != nil {
		_, emptied := c.emptyRedis(ctx)
		err = errors.Join(err, emptied, c.redis.Close())
	}
	if c.kafka != nil {
		err = errors.Join(err, c.deleteTopics(ctx))
		c.kafka.Close()
	}
	if c.s3 != nil {
		err = errors.Join(err, c.deleteObjects(ctx))
	}
	return err
}

// deleteTopics deletes the Kafka topics whose names begin with the cluster's; none is no error.
func (c *cluster) deleteTopics(ctx context.Context) error {
	admin := kadm.NewClient(c.kafka)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(topics.Names(), func(name string) bool { return !strings.HasPrefix(name, c.name+".") })
	if len(names) == 0 {
		return nil
	}
	deleted, err := admin.DeleteTopics(ctx, names...)
	return errors.Join(err, deleted.Error())
}

// deleteObjects deletes the cluster's objects and incomplete uploads in the bucket. It continues
// after a failed deletion and returns all failures joined.
func (c *cluster) deleteObjects(ctx context.Context) (err error) {
	bucket, prefix := c.cfg.S3.Bucket, c.cfg.S3.Prefix+"/"
	for open := range c.s3.ListIncompleteUploads(ctx, bucket, prefix, true) {
		if open.Err != nil {
			return open.Err
		}
		err = errors.Join(err, c.s3.RemoveIncompleteUpload(ctx, bucket, open.Key))
	}
	objects := c.s3.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true})
	for failed := range c.s3.RemoveObjects(ctx, bucket, objects, minio.RemoveObjectsOptions{}) {
		err = errors.Join(err, failed.Err)
	}
	return err
}

// emptyRedis deletes all keys of this cluster, on every master, and returns their number, also
// beside an error.
func (c *cluster) emptyRedis(ctx context.Context) (keys int, err error) {
	empty := func(ctx context.Context, one redis.UniversalClient) error {
		for scan := one.Scan(ctx, 0, "*"+c.name+":*", 1000).Iterator(); ; keys++ {
			if !scan.Next(ctx) {
				return scan.Err()
			}
			if err := one.Del(ctx, scan.Val()).Err(); err != nil {
				return err
			}
		}
	}
	if many, ok := c.redis.(*redis.ClusterClient); ok {
		err = many.ForEachMaster(ctx, func(ctx context.Context, one *redis.Client) error { return empty(ctx, one) })
		return keys, err
	}
	return keys, empty(ctx, c.redis)
}

// timerEntry returns the ZSET that contains the park timer of an upload and the time of its score.
// key is "" if no ZSET contains it.
func (c *cluster) timerEntry(ctx context.Context, t timerView, id uuid.UUID) (key string, at time.Time, err error) {
	number, _, _ := strings.Cut(t.Shard, "/")
	prefix := fmt.Sprintf("{%s:t%s}:park:", c.name, number)
	slices, err := c.redis.ZRange(ctx, prefix+"dir", 0, -1).Result()
	if err != nil {
		return "", at, err
	}
	for _, slice := range append(slices, "inf") {
		score, err := c.redis.ZScore(ctx, prefix+slice, string(id[:])).Result()
		if err == nil {
			return prefix + slice, time.UnixMilli(int64(score)), nil
		}
		if !errors.Is(err, redis.Nil) {
			return "", at, err
		}
	}
	return "", at, nil
}

// journal returns the key of an upload's journal and the parts it has accepted.
func (c *cluster) journal(ctx context.Context, upload string) (key string, parts []int, err error) {
	key = c.name + ":{u:" + upload + "}:j"
	fields, err := c.redis.HKeys(ctx, key).Result()
	for _, field := range fields {
		if n, err := strconv.Atoi(field); err == nil {
			parts = append(parts, n)
		}
	}
	slices.Sort(parts)
	return key, parts, err
}

// storedParts describes the parts of an upload in the bucket; "–" if there are none.
func (c *cluster) storedParts(ctx context.Context, upload string) (string, error) {
	core, bucket := minio.Core{Client: c.s3}, c.cfg.S3.Bucket
	for open := range c.s3.ListIncompleteUploads(ctx, bucket, c.cfg.S3.Prefix+"/", true) {
		if open.Err != nil {
			return "", open.Err
		}
		if !strings.HasSuffix(open.Key, upload) {
			continue
		}
		list, err := core.ListObjectParts(ctx, bucket, open.Key, open.UploadID, 0, 1000)
		sum := int64(0)
		for _, p := range list.ObjectParts {
			sum += p.Size
		}
		return fmt.Sprintf("%d, %s, multipart upload of %s", len(list.ObjectParts), size(sum), open.Key), err
	}
	return "–", nil
}

// firedRecord describes the Kafka record of an upload's fired park timer; "" if there is none.
func (c *cluster) firedRecord(ctx context.Context, upload string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	topic := c.name + ".park"
	ends, err := kadm.NewClient(c.kafka).ListEndOffsets(ctx, topic)
	if err != nil {
		return "", err
	}
	from, left := map[int32]kgo.Offset{}, int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			from[o.Partition], left = kgo.NewOffset().AtStart(), left+o.Offset
		}
	})
	if left == 0 {
		return "", nil
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.cfg.Kafka.Brokers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return "", err
	}
	defer reader.Close()
	for left > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		for r := range fetches.RecordsAll() {
			left--
			event, err := decode[struct{ Type, Subject string }](r.Value)
			if err != nil {
				return "", err
			}
			if event.Subject == "park/"+upload {
				return fmt.Sprintf("%s, partition %d, offset %d, type %s, key %s", r.Topic, r.Partition, r.Offset, event.Type, r.Key), nil
			}
		}
	}
	return "", nil
}

// startCluster starts two instances, each with its own data directory, and opens the database for
// reading. On an error some instances may run; the harness stops them.
func (h *harness) startCluster(ctx context.Context) (err error) {
	c := h.cluster
	for i, into := range []**server{&h.server, &h.second} {
		if *into, err = newServer(ctx, h.o.Binary, filepath.Join(h.dir, fmt.Sprintf("instance-%d", i+1)), h.idle()); err != nil {
			return err
		}
		(*into).env = c.env
		if err := (*into).start(ctx); err != nil {
			return err
		}
	}
	u := url.URL{Scheme: "mysql", User: url.UserPassword(c.cfg.MySQL.User, string(c.cfg.MySQL.Password)), Host: c.cfg.MySQL.Addr, Path: "/" + c.name}
	c.db, err = sqldb.Open(ctx, sqldb.Options{MySQL: u.String(), ReadOnly: true, Log: slog.New(slog.DiscardHandler)})
	return err
}

// restartKilled starts those of the two instances again that have ended, and waits until they are
// ready; running ones stay.
func (h *harness) restartKilled(ctx context.Context) error {
	for _, s := range []*server{h.server, h.second} {
		select {
		case <-s.ended:
			if err := s.start(ctx); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// freeAddress returns a loopback address that was unused at the time of the call.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
