// Package memory holds the memory of the whole program to its bound while each endpoint gets its
// worst legal input: one after the other, and then all at once. The server runs with its defaults.
// What is measured is resident memory as Linux counts it: of the server its high water mark, which
// is set back before each attack; of the processes that decode images what samples see. It has
// tests only.
//
//	make deep PARTS=memory                                     the attacks at their full size, with a table
//	SMARTDRIVE_ATTACK=zips go test ./test/memory -v             those whose names have the word
package memory
