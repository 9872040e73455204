// Package servicetest provides real services to tests: a database, Redis, Kafka, an S3 store. "make
// services" starts them, and "make test" passes them in the environment. A test whose service is
// not configured is skipped, or fails if SMARTDRIVE_TEST_REQUIRE lists the service. The same
// applies to external programs: see Tool.
//
// All running tests share the services. Each test must use a database, key prefix, topic prefix or
// bucket of its own; see Unique.
//
// SMARTDRIVE_TEST_KAFKA=kfake selects a Kafka inside of the test process, for machines without
// Java; "make services" sets it there. It speaks the protocol and stores nothing durably. It does
// not satisfy SMARTDRIVE_TEST_REQUIRE.
package servicetest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// Service is the name of a service, as in SMARTDRIVE_TEST_REQUIRE.
type Service string

// The services. The variable SMARTDRIVE_TEST_<NAME> holds the address of each.
const (
	MySQL        Service = "mysql"         // mysql://user:password@host:port/
	Redis        Service = "redis"         // redis://host:port, one server
	RedisCluster Service = "redis_cluster" // redis://host:port,host:port,host:port
	Kafka        Service = "kafka"         // host:port,host:port
	S3           Service = "s3"            // s3://key:secret@host:port/bucket?insecure=true
)

// URL returns the address of a service, or skips the test.
func URL(t testing.TB, s Service) string {
	t.Helper()
	variable := "SMARTDRIVE_TEST_" + strings.ToUpper(string(s))
	url := os.Getenv(variable)
	if url == "" {
		Missing(t, s, variable+" is not set: \"make services\" starts one")
	}
	if s == Kafka && url == Kfake {
		return fake(t)
	}
	return url
}

func required(s Service) bool {
	return slices.Contains(strings.Split(os.Getenv("SMARTDRIVE_TEST_REQUIRE"), ","), string(s))
}

// Missing skips the test because the machine lacks s, a service or program; it fails the test if s
// is required.
func Missing(t testing.TB, s Service, why string) {
	t.Helper()
	if required(s) {
		t.Fatalf("no %s, which is required: %s", s, why)
	}
	t.Skipf("no %s: %s", s, why)
}

// Unique returns a name that no other test uses: lower-case letters and digits, at most 24
// characters.
func Unique() string {
	return "t" + strings.ReplaceAll(uuid.NewString(), "-", "")[:23]
}
