package rig_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/process"

	_ "github.com/go-sql-driver/mysql"
)

func TestMain(m *testing.M) { process.Main(m) }

// store writes a value through a component's link and reads it back.
type store struct {
	component *rig.Component
	put       func(ctx context.Context) error
	get       func(ctx context.Context) error
}

func TestComponentsKeepWhatTheyHaveThroughKillsAndFaults(t *testing.T) {
	t.Parallel()
	c := rig.New(t, rig.Options{})
	for _, s := range []store{onMySQL(t, c), onRedis(t, c), onS3(t, c), onKafka(t, c)} {
		t.Run(s.component.Name, func(t *testing.T) {
			t.Parallel()
			one := s.component
			eventually(t, "put", s.put)
			if one.Name == "redis" { // its log is synced once a second
				one.Stop(t)
			} else {
				one.Kill(t)
			}
			fails(t, s.get)
			t.Logf("serves again %s after a kill", one.Start(t))
			eventually(t, "get after a restart", s.get)

			one.Pause(t)
			fails(t, s.get)
			one.Resume(t)
			eventually(t, "get after a pause", s.get)

			one.Link.Cut(t)
			fails(t, s.get)
			one.Link.Heal(t)
			eventually(t, "get after a cut", s.get)

			one.Link.Silence(t)
			fails(t, s.get)
			one.Link.Heal(t)
			eventually(t, "get after silence", s.get)

			one.Link.Reset(t)
			fails(t, s.get)
			one.Link.Heal(t)
			eventually(t, "get after resets", s.get)

			one.Link.Delay(t, 150*time.Millisecond)
			var took time.Duration // of the successful attempt, because the component may be slow as well
			eventually(t, "get through a slow network", func(ctx context.Context) error {
				began := time.Now()
				defer func() { took = time.Since(began) }()
				return s.get(ctx)
			})
			if took < 300*time.Millisecond {
				t.Errorf("a round trip took %s with 150 ms in each direction", took)
			}
			one.Link.Heal(t)

			one.Link.LoseReplies(t)
			fails(t, s.put)
			one.Link.Heal(t)
			eventually(t, "get after lost replies", s.get)

			one.Wipe(t)
			one.Start(t)
			fails(t, s.get)
			eventually(t, "put after it was emptied", s.put)
		})
	}
}

func TestRedisClusterSurvivesANode(t *testing.T) {
	t.Parallel()
	c := rig.New(t, rig.Options{NoKafka: true, RedisCluster: true})
	db := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Redis.Direct()}})
	defer db.Close()
	set := func(ctx context.Context) error {
		for i := range 30 { // enough for every node to get some
			if err := db.Set(ctx, fmt.Sprint("key", i), "v", 0).Err(); err != nil {
				return err
			}
		}
		return nil
	}
	must(t, "set", set)
	c.RedisNodes[2].Kill(t)
	fails(t, set)
	c.RedisNodes[2].Start(t)
	eventually(t, "set after a restart", set)
}

const within = 2 * time.Minute

func must(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if err := do(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func eventually(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	process.Eventually(t, within, what, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		return do(ctx)
	})
}

func fails(t *testing.T, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	if err := do(ctx); err == nil {
		t.Fatal("nothing is wrong")
	}
}

func onMySQL(t *testing.T, c *rig.Cluster) store {
	t.Helper()
	db, err := sql.Open("mysql", "smartdrive:smartdrive@tcp("+c.MySQL.Link.Addr()+")/smartdrive")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return store{
		c.MySQL,
		func(ctx context.Context) error {
			if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS t (a INT PRIMARY KEY)"); err != nil {
				return err
			}
			_, err := db.ExecContext(ctx, "REPLACE INTO t VALUES (1)")
			return err
		},
		func(ctx context.Context) error {
			var a int
			return db.QueryRowContext(ctx, "SELECT a FROM t").Scan(&a)
		},
	}
}

func onRedis(t *testing.T, c *rig.Cluster) store {
	t.Helper()
	db := redis.NewClient(&redis.Options{Addr: c.Redis.Link.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { db.Close() })
	return store{
		c.Redis,
		func(ctx context.Context) error { return db.Set(ctx, "k", "v", 0).Err() },
		func(ctx context.Context) error { return db.Get(ctx, "k").Err() },
	}
}

func onS3(t *testing.T, c *rig.Cluster) store {
	t.Helper()
	s3, err := minio.New(c.S3.Link.Addr(), &minio.Options{
		Creds: credentials.NewStaticV4("smartdrive", "smartdrive", ""), Region: "us-east-1", MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return store{
		c.S3,
		func(ctx context.Context) error {
			_, err := s3.PutObject(ctx, "smartdrive", "k", strings.NewReader("v"), 1, minio.PutObjectOptions{})
			return err
		},
		func(ctx context.Context) error {
			_, err := s3.StatObject(ctx, "smartdrive", "k", minio.StatObjectOptions{})
			return err
		},
	}
}

// onKafka uses a new client each time, because a client that lost its broker waits before it
// retries.
func onKafka(t *testing.T, c *rig.Cluster) store {
	t.Helper()
	with := func(ctx context.Context, do func(*kgo.Client) error) error {
		deadline, _ := ctx.Deadline() // always set; the client would keep requests beyond it
		most := max(time.Second, time.Until(deadline))
		client, err := kgo.NewClient(kgo.SeedBrokers(c.Kafka.Link.Addr()), kgo.DefaultProduceTopic("t"), kgo.RequestRetries(1),
			kgo.DialTimeout(most), kgo.RequestTimeoutOverhead(most), kgo.ProduceRequestTimeout(most), kgo.RecordDeliveryTimeout(most))
		if err != nil {
			return err
		}
		defer client.Close()
		return do(client)
	}
	return store{
		c.Kafka,
		func(ctx context.Context) error {
			return with(ctx, func(client *kgo.Client) error {
				if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "t"); err != nil && !strings.Contains(err.Error(), "EXISTS") {
					return err
				}
				return client.ProduceSync(ctx, &kgo.Record{Value: []byte("v")}).FirstErr()
			})
		},
		func(ctx context.Context) error {
			return with(ctx, func(client *kgo.Client) error {
				ends, err := kadm.NewClient(client).ListEndOffsets(ctx, "t")
				if err != nil {
					return err
				}
				if end, ok := ends.Lookup("t", 0); !ok || end.Err != nil || end.Offset == 0 {
					return fmt.Errorf("no record: %+v", end)
				}
				return nil
			})
		},
	}
}
