// Package agent watches a directory where other programs drop documents, and sends what is complete
// to a SmartDrive, bundle by bundle, each once. It is the sending half of the intake; what becomes
// of a bundle is the server's to say.
//
//	DIR/                        other programs write here, in subdirectories too
//	  sent/DAY/BUNDLE-ID/...    what was sent, at the place below it that it had in DIR
//	  failed/DAY/ID/...         what never can be sent, with REASON.txt
//	  .smartdrive/
//	    lock                    one agent for one directory
//	    state.json              the bundle on its way and the moves to be done: the truth
//	    live.json               what "agent status" shows besides; may be lost at any time
//
// A file is taken when two looks, at least the settle time apart, found it with one size and one
// modification time. Files of one directory whose names are equal up to the last dot belong
// together: they are taken together and go in one bundle.
//
//	                         members sent            meta.json sent           files moved
//	files ──freeze──► frozen ─────────────► sealing ───────────────► ended ──────────────► sent/
//	  ▲                 │ a file changed, or the server refuses one
//	  └──── refreeze ◄──┘ (under a new id; the folder that is left on the server is deleted)
//
// Invariants:
//
//	G1  The manifest, with the bundle's id and all digests, is in state.json before the first byte is sent. Whoever goes on after a
//	    crash sends the same bundle, not another one.
//	G2  meta.json is sent only after state.json says "sealing", and that only when the server holds each member as it was frozen.
//	    From then on the bundle is never given up: it may be sealed on the server.
//	G3  A file leaves DIR only for a reason that state.json has: its bundle is sealed, or it never can be sent. One that was
//	    changed meanwhile stays.
//	G4  Times of the wall clock are shown, never compared: a step of it neither holds anything back nor lets anything go early.
package agent
