// Package share manages public links by which anybody can list and download a node and its subtree.
//
// A share has a token, which is part of its URL, and optionally a code. Opening a share, with its
// code, returns an access: a signed ticket that is valid for an hour. Nothing is stored per visitor
// until a download is counted.
//
//	token ── Describe ──► what it shows   (the name only if no code is required, or with an access)
//	   └──── Open ──► access ── VerifyAccess ──► Visit ── FindWithin ──► a node below the shared one
//	                                               └───── CountDownload ──► its content may be sent
//
// # Closing a share
//
// A share is closed if it has expired, its download limit is reached, its node is trashed or
// deleted, or its creator is disabled, deleted or no longer permitted to create it. Each request
// checks these conditions, so no event has to reach the share. A new code invalidates every access.
// Visitors see current versions and the current subtree.
//
// # Codes
//
// The owner can read the code again, so it is stored sealed, like the token (package vault). The
// limit on attempts protects it from guessing. Attempts are counted in the database, so the limit
// holds for all instances together (attempts.go).
//
// # Downloads
//
// A download begins with a request for a file's first byte, and one conditional UPDATE counts it
// before that byte is sent. After a crash in between, a download may have been counted that nobody
// received, but never the reverse. If a share has a limit, other ranges of a file are sent only to
// the visit that has begun the download; without one, the request counts as a new download.
package share
