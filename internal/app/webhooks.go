package app

import (
	"context"
	"net/http"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/export/fetch"
)

// webhookRefuser returns a function that reports whether webhookTransport refuses a host.
func webhookRefuser(cfg config.Config) func(ctx context.Context, host string) bool {
	return fetch.Refuser(cfg.WebhookAddresses == config.AddressesAny)
}

// webhookTransport returns the transport to receivers of webhooks. It applies the address rules of
// exports' documents and ignores proxies, which would resolve names themselves.
func webhookTransport(cfg config.Config) http.RoundTripper {
	return &http.Transport{
		DialContext:         fetch.Dialer(cfg.WebhookAddresses == config.AddressesAny),
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2: true,
	}
}
