// Package backing gives tests of whole installations a database, Redis keys, topics and a bucket
// prefix of their own on the services that the tests share. All of them are removed when the test
// ends. The package starts no installation.
package backing

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // installations of tests have databases of their own
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// Flags returns flags of "serve" for the given services, with a database, namespace and bucket
// prefix of the test's own, which are removed at its end. Without services the installation uses
// SQLite and a directory. If the machine lacks a service, the test is skipped, or fails if the
// service is required (SMARTDRIVE_TEST_REQUIRE).
func Flags(t testing.TB, of ...servicetest.Service) (flags []string) {
	t.Helper()
	name := servicetest.Unique()
	flags = []string{"--namespace", name}
	for _, s := range of {
		at := servicetest.URL(t, s)
		switch s { //nolint:exhaustive // of a Redis Cluster there is no use here
		case servicetest.MySQL:
			flags = append(flags, "--db", database(t, at, "backing_"+name))
		case servicetest.Redis:
			flags = append(flags, "--redis", at)
			leaveNothing(t, func(ctx context.Context) error { return forgetKeys(ctx, at, name) })
		case servicetest.Kafka:
			flags = append(flags, "--kafka", at)
			leaveNothing(t, func(ctx context.Context) error { return deleteTopics(ctx, at, name) })
		case servicetest.S3:
			servicetest.EmptyBucket(t, parse(t, at), name)
			u := parse(t, at)
			u.Path += "/" + name
			flags = append(flags, "--blobs", u.String())
		}
	}
	return flags
}

// Cluster are the services of a full cluster.
func Cluster() []servicetest.Service {
	return []servicetest.Service{servicetest.MySQL, servicetest.Redis, servicetest.S3, servicetest.Kafka}
}

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal("the URL of a service is none")
	}
	return u
}

// database makes a database and returns its URL.
func database(t testing.TB, server, name string) string {
	t.Helper()
	u := parse(t, server)
	secret, _ := u.User.Password()
	db, err := sql.Open("mysql", u.User.Username()+":"+secret+"@tcp("+u.Host+")/")
	if err == nil {
		_, err = db.ExecContext(t.Context(), "CREATE DATABASE "+name)
	}
	if err != nil {
		t.Fatal(err)
	}
	leaveNothing(t, func(ctx context.Context) error {
		return errors.Join(sqldbtest.Drop(ctx, db, name), db.Close())
	})
	u.Path = "/" + name
	return u.String()
}

// leaveNothing takes away what a test has left on a service that others use, once its instances
// have stopped. Where it cannot, that is not a fault of what was tested.
func leaveNothing(t testing.TB, remove func(ctx context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := remove(ctx); err != nil {
			t.Log("something is left on a service:", err)
		}
	})
}

func forgetKeys(ctx context.Context, at, name string) error {
	opt, err := redis.ParseURL(at)
	if err != nil {
		return err
	}
	c := redis.NewClient(opt)
	defer c.Close()
	keys := c.Scan(ctx, 0, "*"+name+"*", 10_000).Iterator()
	for keys.Next(ctx) {
		if err := c.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

func deleteTopics(ctx context.Context, at, name string) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(at, ",")...))
	if err != nil {
		return err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(topics.Names(), func(topic string) bool { return !strings.HasPrefix(topic, name+".") })
	_, err = admin.DeleteTopics(ctx, own...)
	return err
}

// Rewind makes a consumer group, which has no members at the moment, forget how far it was, as one
// does that dies before it has told the broker: it begins with the oldest record again.
func Rewind(t testing.TB, at, group string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(at, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	had, err := admin.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	moved := kadm.Offsets{}
	for topic, parts := range had.Offsets() {
		start, err := admin.ListStartOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for part, was := range parts {
			if first, ok := start.Lookup(topic, part); ok && first.Offset < was.At {
				moved.AddOffset(topic, part, first.Offset, -1)
			}
		}
	}
	if len(moved) == 0 {
		t.Fatalf("group %s was nowhere", group)
	}
	if err := admin.CommitAllOffsets(t.Context(), group, moved); err != nil {
		t.Fatal(err)
	}
}
