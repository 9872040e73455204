// Package vault keeps the secret that signed links are made with, and the tokens and codes of
// shares and collect links, so that a copy of the database does not tell them.
//
// The secret lies in the table meta. Whoever knows it can sign a link to any file of the running
// installation. So it is sealed by a key that is somewhere else: a file beside the database that no
// backup has, or what the configuration says.
//
//	meta.value   64 hex digits                     as versions before left it; sealed when it is read
//	             sealed:<key>:<base64url>          AES-256-GCM (NIST SP 800-38D): nonce 12 | secret 32 | tag 16
//
// Tokens and codes are sealed in the same form in their own rows (link.go), by keys that lie in
// meta beside that secret and in its form (text.go). Links are found by a hash of their token.
//
//	key outside the database ──► link-secret
//	                        └──► text-key:N ──► the token and code of each link
//
// <key> names the key by the first 8 hex digits of its SHA-256. The name of the row is the
// additional data: a sealed value is worth nothing in another row. Without any key the secret stays
// in plain, as before.
//
// What is in memory is trusted for five seconds: so late another process learns of a rotation.
package vault
