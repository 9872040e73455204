// Package admin implements what administrators do with users: create, change, list and delete them,
// and read their ledgers. It also creates the first user.
//
// A new user consists of rows of three packages (account, quota, tree), written in one transaction,
// so that no user lacks a ledger or a root folder. Every use case but EnsureFirstUser checks that
// the caller is an administrator; commands on the server's machine act as Local.
package admin
