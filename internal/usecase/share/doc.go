// Package share keeps links by which anybody can list and download one node and what is below it.
//
// A share has a token, which is its address, and perhaps an extraction code. Whoever opens it, with
// the code, gets an access: a signed ticket that is good for an hour. Nothing is stored for a
// visitor until a download is counted.
//
//	token ── Look ──► what it is      (its name only where no code is asked for, or with an access)
//	   └──── Open ──► access ── Enter ──► Visit ── Reach ──► a node below the shared one
//	                                        └───── Count ──► its content may be sent
//
// # What closes a share
//
// It has expired; it was downloaded as often as its owner allowed; the node lies in the trash or is
// gone; the user who made it was disabled or deleted, or may not make it any more. All of that is
// looked up at each request: nothing has to be told to a share. A new code voids every access. What
// visitors see is always the current version, and only what lies below the node now.
//
// # Codes
//
// The owner reads the code again, so it is kept sealed, as the token is (package vault). What
// protects it from being guessed is the count of attempts, which is in the database and so holds
// for all instances together (attempts.go).
//
// # Downloads
//
// A download begins with a request for a file's first byte, and is counted before that byte is
// sent, by one conditional UPDATE: a crash in between has counted one that nobody got, never the
// other way round. Of a share with a limit the other ranges of a file are given only to the visit
// that has begun it; a request for them without one is counted then.
package share
