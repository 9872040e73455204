// Package signon logs people in whom an identity provider vouches for, by OpenID Connect Core 1.0.
//
//	page                       server                        provider
//	Begin ──────────────────►  address, flow
//	keeps the flow, goes to the address ─────────────────►  logs the person in
//	comes back with a code  ◄────────────────────────────
//	Finish (code, flow) ────►  the code for tokens ──────►
//	a session  ◄─────────────  whose it is, who that is here
//
// The flow holds what belongs to this one try: the state, the nonce and the code verifier (RFC
// 7636, S256). The page keeps it, so that a code that somebody else has seen, or slipped into an
// address, is of no use; and so that any instance can finish what another one began.
//
// # Who it is
//
// A person is the issuer and the subject, whatever they are called; nobody is taken for somebody
// else because of a name or a mail address, which at many providers people choose themselves. Who
// comes for the first time gets a user of their own; who has one already connects it while they are
// logged in (Connect).
//
// What the ID token says and what the userinfo endpoint says is read as one, since providers put
// the groups into either. At each login they decide who may come in, who is an administrator and
// who is in which group; also that somebody is so no longer. A provider that does not answer lets
// nobody in: half of what it says is not enough. Passwords go on to work beside it.
//
// # How long
//
// What the provider says is asked again after Life at the latest: a login ends then, however much
// it is used. Back-channel logout (OpenID Connect Back-Channel Logout 1.0) ends the logins of a
// person at once. App passwords go on until the user is disabled here.
package signon
