// Package vault encrypts secrets in the database: the secret that signs links, and the tokens and
// codes of shares and collect links. A copy of the database does not reveal them.
//
// The secret of links is in the table meta. With it, a link to any file of the running installation
// can be signed. It is therefore sealed (encrypted and authenticated) by a key outside of the
// database: a file that is not part of backups, or a setting.
//
//	meta.value   64 hex digits                     plain, as in earlier versions; sealed when it is read
//	             sealed:<key>:<base64url>          AES-256-GCM (NIST SP 800-38D): nonce 12 | secret 32 | tag 16
//
// Tokens and codes are sealed in the same form in their own rows (link.go), by text keys in meta,
// which are sealed like the secret of links (text.go). Links are found by a hash of their token.
//
//	key outside the database ──► link-secret
//	                        └──► text-key:N ──► the token and code of each link
//
// <key> identifies the key by the first 8 hex digits of its SHA-256. The name of the row is the
// additional data, so a sealed value is invalid in any other row. Without a key, the secret stays
// plain.
//
// Cached values are trusted for five seconds, so another process notices a rotation with that
// delay.
package vault
