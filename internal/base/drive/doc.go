// Package drive is the vocabulary of SmartDrive: identifiers, sizes, times, names, paths, states
// and the one error type.
//
// It imports nothing of the project and every other package may import it. It does no I/O.
//
// Words (docs/glossary.md has all of them): an account owns a ledger and a tree of nodes; a node
// points to its current version; an upload is one file on its way in, made of parts; gen is an
// upload's fencing token; a blob is immutable content under its own name.
package drive
