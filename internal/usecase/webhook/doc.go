// Package webhook sends what happens in an account to addresses that its people name.
//
// # What a receiver may rely on
//
// Each entry of the activity log that a webhook asks for is sent at least once, in the order in
// which entries were committed, as a CloudEvents 1.0 event in JSON. A repeat carries the same id
// (webhook-id), so a receiver drops what it has. A request is signed as Standard Webhooks 1.0 says:
//
//	webhook-signature: v1,base64(HMAC-SHA256(secret, webhook-id + "." + webhook-timestamp + "." + body))
//
// Any 2xx settles an entry. Anything else is tried again after 5 s, 1 min, 10 min and then each
// hour, and what comes behind it waits: order is worth more than pace. An entry that a receiver has
// refused five times with a 4xx is passed over, and counted. A webhook that has failed for three
// days, or that a receiver has answered 410, is disabled.
//
// # How nothing is lost, and nobody is held up
//
// A webhook is a position in the log (W1): it is moved by a compare-and-set once entries are
// settled, so whatever dies, what is not settled is sent again. There is no queue that could lose
// something, and no row for each delivery. Each webhook has its own turn, and those of one account
// only some of the places, so a receiver that is slow or dead holds up nobody else.
//
// Addresses inside of this network are refused when the connection is made, as for exports.
package webhook
