package kafka_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream/kafka"
)

// TestBrokerAuthentication checks that brokers with TLS and SASL accept valid credentials only.
func TestBrokerAuthentication(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.TLS(&tls.Config{Certificates: certified.TLS.Certificates}), //nolint:gosec // of the test's broker
		kfake.Superuser("PLAIN", "ann", "sesame"), kfake.Superuser("SCRAM-SHA-256", "ann", "sesame"), kfake.Superuser("SCRAM-SHA-512", "ann", "sesame"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	good := kafka.Options{Brokers: cluster.ListenAddrs(), Source: "smartdrive/test", Log: silent, TLS: true, Roots: roots, User: "ann", Password: "sesame"}
	check := func(change func(*kafka.Options)) error {
		opt := good
		change(&opt)
		s, err := kafka.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // it has sent nothing
		return s.Check(t.Context())
	}
	for _, mechanism := range []string{"", "scram-sha-512", "scram-sha-256", "plain"} {
		if err := check(func(o *kafka.Options) { o.SASL = mechanism }); err != nil {
			t.Errorf("%q: %v", mechanism, err)
		}
	}
	for name, change := range map[string]func(*kafka.Options){
		"another password":     func(o *kafka.Options) { o.Password = "else" },
		"another user":         func(o *kafka.Options) { o.User = "bob" },
		"nobody vouches":       func(o *kafka.Options) { o.Roots = x509.NewCertPool() },
		"nobody says who":      func(o *kafka.Options) { o.User = "" },
		"neither TLS nor user": func(o *kafka.Options) { o.TLS, o.User = false, "" },
	} {
		err := check(change)
		t.Logf("%s: %v", name, err)
		if err == nil || drive.IsKind(err, drive.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
