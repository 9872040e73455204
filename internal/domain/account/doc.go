// Package account knows the people: users, the sessions and tokens that they come with, and who a
// request acts for.
//
// An account owns a ledger and a tree; a user logs in and acts on it. This package owns the tables
// accounts, users, sessions and identities. Making the ledger and the tree of a new account is
// package admin's work, in the same transaction.
//
// # Secrets
//
// A password is kept as an Argon2id PHC string. At most two are hashed at a time, so that a storm
// of logins costs time and not memory. A bearer secret is "sd_" and 32 random bytes in base64url;
// only its SHA-256 is kept, and it is looked up by that hash: the time of a look-up tells nothing
// about a secret that one does not have.
//
// # Revocation
//
// Authenticate answers from memory. In this process a revoked session stops at once; one that
// another process revoked stops within five seconds, because an answer is never given from a row
// that was read longer ago than that. Auth.Run reads the recently used rows again before they are
// that old, all in one query, so that requests need not wait for it.
//
// # Creation
//
// Everything random or slow (ids, the password's hash) is made before the transaction; the row is
// inserted if absent, read back and verified. Doing it again with the same draft changes nothing.
package account
