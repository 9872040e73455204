// Package idem makes sure that a creation that is requested twice happens once: idempotency keys,
// prepare ids and the limit on double clicks.
//
// # Keys
//
// The key's row, the effect and the response are one transaction (Keys.Do): a crash before the
// commit leaves none of them, a reply lost after it is repeated from the row. Only success is
// stored; a refusal leaves no trace and may be tried again under the same key. The row is inserted
// first, which on SQLite means nothing (one writer) and on a database with row locks makes a
// concurrent user of the key wait on the unique row until the first has committed (and then gets
// its response) or rolled back (and then goes first); when that wait times out the answer is
// InProgress.
//
// An effect that is more than one transaction does its preparation outside and under a name of its
// own, so that what the loser prepared can be thrown away:
//
//	if resp, ok, err := keys.Lookup(ctx, db, req); err != nil || ok { return resp, err }
//	id := drive.NewID[drive.UploadID]()
//	prepare(id)                                                   // a directory that nobody else knows of
//	err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
//		resp, err = keys.Do(ctx, tx, req, func(ctx context.Context, tx *sqldb.Tx) (int, []byte, error) { ... })
//		return err                                                // always: it takes the key's row back
//	})
//	if err != nil || resp.Replayed { discard(id) }
//
// A request's fingerprint is stored for a day: it must not be made of a low-entropy secret such as
// a password.
//
// # Prepare ids
//
// A prepare id is a key that the server made and signed, with its end inside it. Nothing is stored
// when it is handed out. Past its end it is Gone, whatever rows there are; a row lives longer than
// any prepare id that could have made it (keyLife is twice PrepareLife), so removing rows can never
// make a used id new again. It works for one creation only, whatever route it is sent to. A clock
// set back by more than keyLife - PrepareLife after a purge would break this; nothing less does.
package idem
