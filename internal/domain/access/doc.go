// Package access decides who may do what: one resolver and one table of what each use case needs,
// for all heads.
//
// # Words
//
// A principal is a user or a group of users. A grant gives a principal a role at a node: on the
// root of a space it is a membership, on a folder or file it is a share by name. A space is an
// account without an owner: its ledger, tree, feed and trash are like those of any account, and its
// members are who has a grant on its root. A guest acts on an account that is not their own.
//
// # The rule
//
//	the owner of a personal account           may do everything in it
//	who has manager at the root of a space    may do everything in it
//	everybody else: of the node and the folders above it, the nearest one that has a grant for the
//	user or one of the user's groups decides; several grants there add up
//
// So a nearer grant may give less (none shuts out) or more than one above it. Without any grant
// there is nothing to see: the answer is NotFound, as for what does not exist (A2). A node in the
// trash, itself or with a folder above it, gives nothing to guests who have no role at the root of
// a space: the trash belongs to the owner, or to the members. Its grants stay, and hold again when
// it is restored. A space that is archived can only be read; one that is deleted is not there.
//
// # Invariants
//
// A1: whatever a use case does to a node it has asked Enter for, with the use of the table. A3: a
// change of a grant, a group or a space holds from the next request; in other instances, and for
// uploads whose right is in memory, within trustFor. A5: Enter is one small statement about the
// node, which also finds that somebody has nothing in its account; what is granted above a folder
// is remembered until the epoch ends, and else read by a second one, which goes up and finds grants
// by their key.
//
// The package owns the tables spaces, user_groups, group_members, grants and mounts (what receivers
// call what is shared with them). It reads nodes and users.
package access
