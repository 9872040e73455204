// Package crossed lets two instances on one MySQL database get in each other's way: every
// transaction that belongs to accounts, at once, on one account and on several that share content.
// It has tests only. They need SMARTDRIVE_TEST_DB=mysql, but for that of a space's ledger, which
// runs with one instance on SQLite, too.
//
// What must come out: the sums are equal (Q1-Q3), no total is passed (Q4), references are versions
// (B2), trees are trees (N1, N2), and nobody was told of a deadlock.
package crossed
