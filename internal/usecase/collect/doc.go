// Package collect keeps links by which anybody can send files into one folder, without an account.
//
//	token ── Look ──► title, message, how much is left
//	   └──── Open ──► a sender's token, good for 30 days: Authenticate makes a Sender of it
//
// The token is kept as a hash, and sealed for the owner (package vault).
//
// # Senders
//
// A sender's token is signed and nothing is stored for it: whoever opens a link a million times
// leaves no row. It acts for the owner's account with the scope ScopeSend alone, which no route has
// that a login or a token of a program may call. What a sender begins is written down (table
// collected) in the transaction that begins the upload, and nothing else is theirs: uploads of
// others, of the owner, of the same link, are not there for them. They see a file under the name
// that they gave it, wherever a clash of names has put it, so that nothing tells them what else is
// in the folder; and claims of content are not answered, because an answer tells what the account
// has.
//
// # Budget
//
// A link's bytes are what it has received and the declared sizes of its uploads that are not gone,
// finished or not: C1: at no commit is that more than the link's limit. LetIn computes the sum in
// the transaction that begins an upload and under the lock of the account's ledger, out of the rows
// of the uploads themselves. So there is no counter to be given back: an upload that is cancelled
// or reclaimed, by whomever, stops counting at the commit that ends it, and one that idles counts
// until then. Files that are done are moved from the sum into the link's row (settle), which may
// happen late, twice or never.
//
// The bytes are the owner's in every other respect: charged to their ledger, refused when they have
// no room.
//
// # What closes a link
//
// Its end, the trash, an owner who may not log in, and its deletion. Then its uploads are refused,
// too, within five seconds (Auth keeps what it has read of a link for so long).
package collect
