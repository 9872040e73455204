// Package vault keeps the secret that signed links are made with, so that a copy of the database does not tell it.
//
// The secret lies in the table meta. Whoever knows it can sign a link to any file of the running installation. So it is sealed by a key
// that is somewhere else: a file beside the database that no backup has, or what the configuration says.
//
//	meta.value   64 hex digits                     as versions before left it; sealed when it is read
//	             sealed:<key>:<base64url>          AES-256-GCM (NIST SP 800-38D): nonce 12 | secret 32 | tag 16
//
// <key> names the key by the first 8 hex digits of its SHA-256. The name of the row is the additional data: a sealed value is worth
// nothing in another row. Without any key the secret stays in plain, as before.
//
// What is in memory is trusted for five seconds: so late another process learns of a rotation.
package vault
