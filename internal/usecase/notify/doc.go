// Package notify sends notifications, on the page and by mail.
//
//	use case ──Cause──► stream ──► Notifier ──► notices ──► Inbox    the page, the API
//	exports, uploads ────────────►   │              └─────► Mailer   mail, a digest per person
//	expiring grants, ledgers ──────┘
//
// # Recipients and visibility
//
// A cause names one user, or a group whose members at that time are notified, except for the user
// who caused it. A notice stores ids. Names are looked up when it is read, with the reader's
// current access. If the reader has lost access to the subject, the notice only says so
// (Notification.Gone). A revoked role keeps the node's name from before.
//
// # Redelivery
//
// The Notifier is a stream consumer: a cause is redelivered until it is handled. Because the id of
// a notice is that of its cause (E4), a user gets at most one notice on the page. A mail is
// recorded as sent after its server accepted it. A crash in between sends it again with the same
// Message-ID.
package notify
