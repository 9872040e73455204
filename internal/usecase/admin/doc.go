// Package admin is what an administrator does: create, change, list and delete users and read their
// ledgers. It is also how the first user comes to be.
//
// A new user is rows of three owners (account, quota, tree) written in one transaction: there is no
// user without a ledger or a root folder. Every use case but EnsureFirstUser checks that the caller
// is an administrator; a command on the machine itself acts as Local.
package admin
