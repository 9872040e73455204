// Package collect manages collect links, by which anybody can upload files into one folder without
// an account.
//
//	token ── Describe ────► title, message, remaining space
//	   └──── IssueToken ──► a sender's token, valid for 30 days: Authenticate turns it into a Sender
//
// The link token is stored as a hash, and sealed for the owner (package vault).
//
// # Senders
//
// A sender's token is signed and not stored, so opening a link a million times creates no row. It
// acts for the owner's account with the scope ScopeSend alone, which no route for logins or API
// tokens accepts. The uploads of a sender are recorded in table collected, in the transaction that
// begins them. A sender sees no other uploads, neither of the owner nor of other senders. A sender
// sees a file under the name it was sent with, even if a conflict renamed it, so that nothing
// reveals what else is in the folder. Content claims get no answer, because an answer reveals what
// the account has.
//
// # Budget
//
// A link's bytes are those received plus the declared sizes of its uploads that are not gone. At no
// commit do they exceed the link's limit (C1). BeginUpload sums them from the upload rows, in the
// transaction that begins an upload, under the lock of the account's ledger. So no counter has to
// be refunded: a cancelled or reclaimed upload stops counting with the commit that ends it, and an
// idle one counts until then. settle moves finished files from the sum into the link's row; it may
// run late, twice or never.
//
// Otherwise the bytes belong to the owner: they are charged to the owner's ledger and refused if
// that has no room.
//
// # Closing a link
//
// A link closes when it expires, its folder is trashed, its owner may not sign in, or it is
// deleted. Its uploads are refused from then on, at the latest after five seconds (the trust time
// of cached links).
package collect
