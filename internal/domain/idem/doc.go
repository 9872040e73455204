// Package idem makes repeated creations idempotent: idempotency keys, prepare ids, and limits on
// double clicks.
//
// # Keys
//
// The row of the key, the effect and the response are committed in one transaction (Keys.Do). A
// crash before the commit leaves none of them. After a lost reply, a retry gets the stored
// response. Only successes are stored: a refused request can be repeated under the same key. The
// row is inserted first. On a database with row locks, a concurrent request with the key then waits
// for the unique row: until the first commits (and returns its response) or rolls back (and takes
// its place). If that wait times out, the request fails with InProgress. SQLite has a single
// writer.
//
// An effect that needs more than one transaction prepares its data outside, under its own name, so
// that the data of a losing request can be discarded:
//
//	if resp, ok, err := keys.Lookup(ctx, db, req); err != nil || ok { return resp, err }
//	id := drive.NewID[drive.UploadID]()
//	prepare(id)                                                   // a directory that no other request knows
//	err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
//		resp, err = keys.Do(ctx, tx, req, func(ctx context.Context, tx *sqldb.Tx) (int, []byte, error) { ... })
//		return err                                                // always: it rolls back the row of the key
//	})
//	if err != nil || resp.Replayed { discard(id) }
//
// The fingerprint of a request is stored for a day. It must not be computed from a low-entropy
// secret such as a password.
//
// # Prepare ids
//
// A prepare id is a key that the server creates and signs; it contains its expiry time. Nothing is
// stored when it is issued. After its expiry it is Gone, whatever rows exist. A row outlives every
// prepare id that could have created it (keyLife is twice PrepareLife), so purging rows never makes
// a used id valid again. A prepare id works for one creation on any route. Only a clock that is set
// back by more than keyLife - PrepareLife after a purge would break this.
package idem
