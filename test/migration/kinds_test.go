package migration

import (
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// S3 wants MySQL and Redis beside it, so that contents alone go to S3 only where rows are at MySQL
// already. One installation makes all moves of one kind, one after the other, and ends where the
// independent checker can judge it: in directories.
func TestOneKindAtATime(t *testing.T) {
	t.Parallel()
	depth.Deep(t)
	needSignals(t)
	db, _ := sqldbtest.Empty(t)
	name := "m" + servicetest.Unique()
	contents, redis := bucket(t, name), redisAt(t, "2")
	dir := func(name string) string { return filepath.Join(t.TempDir(), name) }
	data, second, third, last := dir("data"), dir("second"), dir("third"), dir("last")

	s := newSite(t, settings{data: data, namespace: name})
	people := s.people("ann", "bob")
	for _, move := range []struct {
		name string
		to   []string
		data string   // where the rows are then, if they are in a file
		args []string // with which the server is started then
	}{
		{"contents from a directory to another", []string{"--to-blobs", second}, data, []string{"--blobs", second}},
		{"rows from SQLite to MariaDB", []string{"--to-db", db}, data, []string{"--blobs", second, "--db", db}},
		{"contents from a directory to S3", []string{"--to-blobs", contents, "--to-redis", redis}, data, []string{"--blobs", contents, "--redis", redis, "--db", db}},
		{"contents from S3 to a directory", []string{"--to-blobs", third}, data, []string{"--blobs", third, "--db", db}},
		{"rows from MariaDB to SQLite", []string{"--to-db", last}, last, []string{"--blobs", third}},
	} {
		t.Log(move.name)
		s.move(people, nil, move.to...)
		s.stop()
		s.nodes[0].now.data = move.data
		s.restart(move.args...)
		s.command("drop")
	}
	s.end(people)
	s.check("-blobs", third, last)
}

func needSignals(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM on Windows, and kill -9 is another thing there")
	}
}

// bucket is a place for contents that no other test has.
func bucket(t *testing.T, name string) string {
	t.Helper()
	at, err := url.Parse(servicetest.URL(t, servicetest.S3))
	if err != nil {
		t.Fatal(err)
	}
	servicetest.EmptyBucket(t, at, name)
	return at.JoinPath(name).String()
}

// redisAt is a numbered database of Redis. Names begin with the namespace, so tests may share one.
func redisAt(t *testing.T, number string) string {
	t.Helper()
	return strings.TrimSuffix(servicetest.URL(t, servicetest.Redis), "/") + "/" + number
}
