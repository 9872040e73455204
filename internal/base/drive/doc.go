// Package drive is the vocabulary of SmartDrive: identifiers, sizes, times, names, paths, states
// and the error type.
//
// It imports no package of the project, every other package may import it, and it does no I/O.
//
// Words (docs/glossary.md has all): an account owns a ledger and a tree of nodes. A node points to
// its current version. An upload is one file being sent, made of parts. gen is an upload's fencing
// token. A blob is immutable content under its own name. A head is a protocol that clients speak
// with the server, such as the native API or WebDAV.
package drive
