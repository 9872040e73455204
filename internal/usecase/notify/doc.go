// Package notify tells people what happened that is theirs to know, on the page and by mail.
//
//	use case ──Due──► stream ──► Teller ──► notices ──► Inbox   the page, the API
//	exports, uploads ──────────►   │            └─────► Postman mail, a digest for each person
//	grants that end, ledgers ──────┘
//
// # Who is told, and what they may read
//
// A cause names one person, or a group, whose members of that moment are told. Whoever made it
// happen is not. A notice keeps ids: names are looked up when it is read, as the reader may see
// them then. Of what the reader may not see any more nothing is said but that there was something
// (Seen.Gone). What a role was taken from has the name that it had while the role was there.
//
// # What may die, or come twice
//
// The Teller is a consumer: a cause comes again until it is handled, and the id of a notice is that
// of its cause (E4), so nobody is told twice on the page. A mail is noted once its server has taken
// it; whoever dies in between sends it again, under the same Message-ID.
package notify
