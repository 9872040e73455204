// Package notice stores notifications: that a file was shared with a user, that a role will expire,
// that an export is ready. Package notify decides who is notified; this package checks no access
// rights.
//
// # Terms
//
// A cause is an event that users are notified of. The use case that causes it publishes it
// (NewRecord) in its transaction. A notice is a row: the notification of one user about one cause.
// A channel is how a user wants to be notified of a kind: on the page, by mail as well, or not at
// all.
//
// # Invariants
//
// E4: the id of a notice is the id of its cause, so a user has at most one notice per cause,
// however often the cause is handled. A crash between cause and notice leaves the cause in the
// stream, which redelivers it. E5: a user has at most MaxPerUser notices; the oldest are deleted
// first.
//
// The package owns the tables notices and notice_people.
package notice
