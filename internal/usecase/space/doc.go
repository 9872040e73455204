// Package space is what people do with what they share: spaces and their members, groups, and roles
// at folders and files. Who may do what is decided by package access, whose rows these are; this
// package makes, with them, the ledger and the tree that a space has like any account.
//
// Q4 holds for a space as for everybody: bytes are charged to the account whose tree they are in,
// whoever sent them (A4). No change of roles and groups takes the last manager from a space: a user
// who can sign in and whose role does not end, given to them or to a group of theirs. Disabling and
// deleting a user are never held up by that: an administrator gives such a space another manager.
package space
