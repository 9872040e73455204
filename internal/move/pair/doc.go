// Package pair is one place for bytes over two: while an installation moves its contents, everybody reads, writes and stages through it
// and nobody knows that there are two. It is over one side most of the time, and passes everything through then.
//
// One side leads: new content and new uploads go there. Content keeps its name on its way, so that no row changes.
//
//	Put, Create       at the side that leads
//	Open, Stat        at the side that leads, else at the other (Read moves a share of contents to the follower first)
//	Remove            at both; the follower last, see Sync
//	staged uploads    at the side where they began, until they end; nothing but asking both tells which one that is
//	List, Quarantine  both; what lies at both is listed twice
//
// What leads changes with one store of a pointer (Lead): a Put that runs meanwhile ends where it began, and Sync copies it whichever
// way it has to go. The pair decides nothing by itself, and remembers nothing that matters: package migrate says when, rows say what.
//
// # Two kinds of staging
//
// A staging that several instances share differs from one of this process alone (blob/caps.go), and package upload goes by one of
// them for as long as it runs. So the pair shows the kind that its first side has, and makes the second one look like it: alike.go.
package pair
