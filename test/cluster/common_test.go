package cluster

import (
	"database/sql"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the judge queries the database directly
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/redis/go-redis/v9"

	"example.org/smartdrive/test/cluster/rig"
	"example.org/smartdrive/test/process"
	system "example.org/smartdrive/test/system/rig"
)

func TestMain(m *testing.M) { process.Main(m) }

// Server settings with short times, so that uploads are parked, reclaimed and deleted between
// faults.
const (
	idle    = time.Second
	abandon = 30 * time.Second
	grace   = 2 * time.Second

	mib = 1 << 20
	// partSize is the smallest part size that S3 allows here.
	partSize = 8 * mib

	// patience bounds waits that always end; other tests may slow the machine down.
	patience = 3 * time.Minute
)

// settings returns the flags of every instance; more overrides them.
func settings(more ...string) []string {
	return append([]string{
		"--upload-idle", idle.String(), "--upload-abandon", abandon.String(), "--blob-grace", grace.String(), "--user-requests", "64",
	}, more...)
}

// node is an instance that can be killed and restarted.
type node struct {
	name  string
	roles string
	site  *system.Site
	*system.Server
}

func startNode(t *testing.T, c *rig.Cluster, name, roles string, flags ...string) *node {
	t.Helper()
	n := &node{name: name, roles: roles, site: c.Site(t, roles, settings(flags...)...)}
	n.Server = n.site.Start(t)
	return n
}

// number returns an integer setting from the environment, or def.
func number(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s is %q, no number", name, text)
	}
	return n
}

func redisClient(t *testing.T, c *rig.Cluster) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(c.Redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	db := redis.NewClient(opt)
	t.Cleanup(func() { db.Close() })
	return db
}

func mysqlClient(t *testing.T, c *rig.Cluster) *sql.DB {
	t.Helper()
	u, err := url.Parse(c.MySQL.URL())
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")/smartdrive")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// s3Client returns a client and the bucket name.
func s3Client(t *testing.T, c *rig.Cluster) (*minio.Core, string) {
	t.Helper()
	u, err := url.Parse(c.S3.URL())
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	s3, err := minio.NewCore(u.Host, &minio.Options{Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	return s3, strings.Trim(u.Path, "/")
}

// parts makes a begin request the smallest part size.
var parts = map[string]any{"part_size": partSize}
