// Package agent watches a directory where other programs drop documents, and sends complete files
// to a SmartDrive server in bundles, each exactly once. It is the sending side of the intake; the
// server decides about the outcome of a bundle.
//
//	DIR/                        other programs write here, in subdirectories too
//	  sent/DAY/BUNDLE-ID/...    sent files, with their path relative to DIR
//	  failed/DAY/ID/...         files that can never be sent, with REASON.txt
//	  .smartdrive/
//	    lock                    held by the agent of the directory
//	    state.json              the current bundle and the pending moves: authoritative
//	    live.json               more for "agent status"; may be lost at any time
//
// A file is complete when two scans, at least the settle time apart, found it with the same size
// and mtime. Files of one directory whose names are equal up to the last dot form a group: they are
// taken together and sent in one bundle. To freeze a bundle is to record its files, sizes and
// digests in state.json; a refrozen bundle was given up, and its files are sent in another one.
//
//	                         members sent            meta.json sent           files moved
//	files ──freeze──► frozen ─────────────► sealing ───────────────► ended ──────────────► sent/
//	  ▲                 │ a file changed, or the server refuses one
//	  └──── refreeze ◄──┘ (with a new id; the old folder on the server is deleted)
//
// Invariants:
//
//	G1  The manifest, with the bundle's id and all digests, is in state.json before the first byte is sent. After a crash the
//	    agent sends the same bundle, not another one.
//	G2  meta.json is sent only after state.json says "sealing", which requires that the server holds each member as it was frozen.
//	    From then on the bundle is never given up, because it may be sealed on the server.
//	G3  A file leaves DIR only for a reason recorded in state.json: its bundle is sealed, or it can never be sent. A file that
//	    changed in the meantime stays.
//	G4  Wall-clock times are shown, never compared: a step of the clock neither delays a file nor sends it early.
package agent
