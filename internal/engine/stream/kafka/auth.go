package kafka

import (
	"crypto/tls"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// mechanism returns the SASL mechanism: SCRAM (RFC 5802, RFC 7677) or PLAIN (RFC 4616).
func (o Options) mechanism() sasl.Mechanism {
	switch o.SASL {
	case "plain":
		return plain.Auth{User: o.User, Pass: o.Password}.AsMechanism()
	case "scram-sha-256":
		return scram.Auth{User: o.User, Pass: o.Password}.AsSha256Mechanism()
	default:
		return scram.Auth{User: o.User, Pass: o.Password}.AsSha512Mechanism()
	}
}

// securityOptions returns the client options for TLS and SASL; none if neither is configured.
func (o Options) securityOptions() (opts []kgo.Opt) {
	if o.TLS {
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots}))
	}
	if o.User != "" {
		opts = append(opts, kgo.SASL(o.mechanism()))
	}
	return opts
}
