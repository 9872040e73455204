// Package space implements the use cases of sharing: spaces and their members, groups, and roles at
// folders and files. Package access stores the rows and decides who may do what. This package also
// creates the ledger and the tree that a space has like any account.
//
// Q4 holds for a space, too: bytes are charged to the account whose tree they are in, whoever sent
// them (A4). No change of roles or groups removes the last manager of a space: a user who can sign
// in and whose role, direct or by a group, does not expire. Disabling or deleting a user is never
// refused for that reason; an administrator then gives the space another manager.
package space
