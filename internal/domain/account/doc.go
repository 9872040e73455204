// Package account stores users, their sessions and API tokens, and authenticates requests.
//
// An account owns a ledger and a tree; a user logs in and acts on an account. This package owns the
// tables accounts, users, sessions and identities. Package admin creates the ledger and the tree of
// a new account in the same transaction.
//
// # Secrets
//
// A password is stored as an Argon2id PHC string. At most two are hashed at a time, so that a burst
// of logins takes time and not memory. A bearer secret is "sd_" and 32 random bytes in base64url.
// Only its SHA-256 is stored and looked up, so that the timing of a lookup reveals nothing about
// other secrets.
//
// # Revocation
//
// Authenticate answers from memory. A session revoked by this process stops at once. One revoked by
// another process stops within five seconds, because cached rows are not used longer. Auth.Run
// refreshes recently used rows earlier, in one query, so that requests need not wait for the
// database.
//
// # Creation
//
// Ids and password hashes are created before the transaction. The row is inserted if absent, read
// back and verified, so repeating it with the same draft changes nothing.
package account
