// Package signon signs people in through an identity provider, by OpenID Connect Core 1.0.
//
//	page                       server                        provider
//	Begin ──────────────────►  address, flow
//	keeps the flow, goes to the address ─────────────────►  signs the person in
//	returns with a code     ◄────────────────────────────
//	Finish (code, flow) ────►  the code for tokens ──────►
//	a session  ◄─────────────  claims, mapped to a user
//
// The flow holds the secrets of one sign-in attempt: the state, the nonce and the code verifier
// (RFC 7636, S256). The page stores it. So a code that an attacker saw, or put into an address, is
// useless, and any instance can finish an attempt that another instance began.
//
// # Identity
//
// A person is identified by issuer and subject, never by a name or a mail address, because at many
// providers people choose both. A person who signs in for the first time gets a new user. A user
// who already exists connects to the provider while signed in (Connect).
//
// The claims of the ID token and of the userinfo endpoint are merged, because providers put groups
// into either. Each sign-in applies them: who may sign in, who is an administrator, who is in which
// group; rights that the claims no longer contain are revoked. If either source fails, the sign-in
// fails. Passwords continue to work.
//
// # Lifetime
//
// A session ends after Life at the latest, even if it is used, so that the claims are read again.
// Back-channel logout (OpenID Connect Back-Channel Logout 1.0) ends a person's sessions at once.
// App passwords stay valid until the user is disabled here.
package signon
