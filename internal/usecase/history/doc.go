// Package history shows what happened to those who may see it: at a file or folder, in a drive or
// in a space. It writes nothing: entries come from the use cases (package activity).
//
// # Who sees what
//
// The owner of a drive and the managers of a space see everything there, with the address that it
// came from. Everybody else sees what was done to nodes that they see now, and who has done it.
// What was deleted for good is seen by those who see everything.
package history
