// Package webhook delivers the activity of an account to addresses that its users configure.
//
// # Guarantees to receivers
//
// Each activity entry that a webhook requests is sent at least once, in commit order, as a
// CloudEvents 1.0 event in JSON. A redelivery has the same webhook-id, by which receivers
// deduplicate. Requests are signed as Standard Webhooks 1.0 specifies:
//
//	webhook-signature: v1,base64(HMAC-SHA256(secret, webhook-id + "." + webhook-timestamp + "." + body))
//
// Any 2xx settles an entry. Otherwise it is retried after 5 s, 1 min, 10 min and then hourly, and
// later entries wait: order takes precedence over throughput. An entry that a receiver rejects five
// times with a 4xx is skipped and counted. A webhook is disabled after failing for three days, or
// when its receiver responds with 410.
//
// # Delivery
//
// A webhook is a position in the log (W1). A compare-and-set advances it once entries are settled,
// so entries that were not settled before a crash are sent again. There is no queue that could lose
// entries, and no row per delivery. Each webhook is sent to in its own turn, and an account only
// gets a bounded number of concurrent turns, so a slow or dead receiver delays no one else.
//
// Connections to addresses inside the server's network are refused, as for exports.
package webhook
