// Package servicetest hands tests the real services they run against: a database, Redis, Kafka, an
// S3 store. "make services" starts them and "make test" names them in the environment; a test whose
// service is not named skips with that reason, or fails where SMARTDRIVE_TEST_REQUIRE lists the
// service. The same goes for programs of others: see Tool.
//
// Services are shared by all tests that run: whoever uses one keeps to a database, key prefix,
// topic prefix or bucket of their own; see Unique.
//
// SMARTDRIVE_TEST_KAFKA=kfake stands for a Kafka inside the test process, for machines that have no
// Java: "make services" writes it there. It speaks the protocol and keeps nothing. Where
// SMARTDRIVE_TEST_REQUIRE lists kafka it is not good enough.
package servicetest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// Service is the name of a service, as SMARTDRIVE_TEST_REQUIRE spells it.
type Service string

// The services. Each is named by the variable SMARTDRIVE_TEST_<NAME>.
const (
	MySQL        Service = "mysql"         // mysql://user:password@host:port/
	Redis        Service = "redis"         // redis://host:port, one server
	RedisCluster Service = "redis_cluster" // redis://host:port,host:port,host:port
	Kafka        Service = "kafka"         // host:port,host:port
	S3           Service = "s3"            // s3://key:secret@host:port/bucket?insecure=true
)

// URL returns where the service is, or skips the test.
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

// Missing skips the test because the machine lacks s, which may be another thing than a service, or
// fails it where s is required.
func Missing(t testing.TB, s Service, why string) {
	t.Helper()
	if required(s) {
		t.Fatalf("no %s, which is required: %s", s, why)
	}
	t.Skipf("no %s: %s", s, why)
}

// Unique returns a name that no other test has: lower-case letters and digits, at most 24
// characters.
func Unique() string {
	return "t" + strings.ReplaceAll(uuid.NewString(), "-", "")[:23]
}
