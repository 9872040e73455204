// Package access authorizes callers: one resolver and one table of the rights that each use
// requires, for all heads.
//
// # Terms
//
// A principal is a user or a group of users. A grant gives a principal a role at a node: at the
// root of a space it is a membership, at another folder or file it is a share by name. A space is
// an account without an owner. Its ledger, tree, feed and trash are like those of any account, and
// its members are the principals with a grant at its root. A guest acts on an account other than
// their own. A pass is the result of an authorization.
//
// # The rule
//
//	the owner of a personal account           may do everything in it
//	a manager at the root of a space          may do everything in it
//	others: of the node and the folders above it, the nearest one with a grant for the
//	user or one of the user's groups decides; several grants there add up
//
// So a nearer grant may give less (none denies access) or more than one above it. Without any grant
// the result is NotFound, as for a missing node (A2). A node in the trash, itself or with a folder
// above it, is only visible to the owner and to members of the space. Its grants stay and apply
// again after it is restored. An archived space is read-only; a deleted one is NotFound.
//
// # Invariants
//
// A1: every use case calls Enter, with the use from the table, before it touches a node. A3: a
// change of a grant, a group or a space applies from the next request on. In other instances, and
// for uploads whose rights are cached, it applies within maxAge. A5: Enter costs one small
// statement about the node, which also detects that the user has no grant in its account. Grants
// above a folder are cached until the epoch ends; otherwise a second statement reads them by key.
//
// The package owns the tables spaces, user_groups, group_members, grants and mounts (a receiver's
// own names for shared nodes). It reads nodes and users.
package access
