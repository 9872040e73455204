package app

import (
	"net/http"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/export/fetch"
)

// webhookTransport returns the transport to receivers of webhooks. It applies the address rules of
// exports' documents and ignores proxies, which would resolve names themselves.
func webhookTransport(cfg config.Config) http.RoundTripper {
	return &http.Transport{
		DialContext:         fetch.Dialer(cfg.WebhookAddresses == config.AddressesAny),
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2: true,
	}
}
