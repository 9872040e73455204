// Package space is what people do with what they share: spaces and their members, groups, and roles
// at folders and files. Who may do what is decided by package access, whose rows these are; this
// package makes, with them, the ledger and the tree that a space has like any account.
//
// Q4 holds for a space as for everybody: bytes are charged to the account whose tree they are in,
// whoever sent them (A4). A space has a manager at any time: the last one can neither leave nor be
// made less, but by an administrator.
package space
