// Package history shows activity entries to the users who may see them: of a file or folder, a
// drive or a space. Except for Downloads and AccountHook, it writes nothing; package activity
// stores entries on behalf of the use cases.
//
// # Visibility
//
// The owner of a drive and the managers of a space see all entries there, with client addresses.
// Others see the changes of nodes that they can see now, and who made them. Changes of permanently
// deleted nodes are only visible to users who see everything.
package history
