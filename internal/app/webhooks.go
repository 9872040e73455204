package app

import (
	"net/http"
	"time"

	"smartdrive/internal/base/config"
	"smartdrive/internal/export/fetch"
)

// webhookTransport reaches the receivers of webhooks: by the rules about addresses that documents
// of exports are fetched by, and past any proxy, which would look up names by itself.
func webhookTransport(cfg config.Config) http.RoundTripper {
	return &http.Transport{
		DialContext:         fetch.Dialer(cfg.WebhookAddresses == config.AddressesAny),
		MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2: true,
	}
}
