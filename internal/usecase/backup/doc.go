// Package backup copies an embedded installation while it runs, and puts a copy back.
//
//	<backup>/manifest.json           what is here; replaced last, so it always describes a whole backup
//	<backup>/database-<ms>.db        the copy of the database that the manifest names
//	<backup>/blobs/ab/<file>         every content file that this database names, and none besides;
//	                                 small contents lie in packs there, as they do in the installation
//
// The database is copied first, at one moment. Content never changes (B1) and is unlinked a while
// after its last reference has gone, so every file that the copy names can then be taken one by
// one: linked where that is possible, else copied. Files that were unlinked before their turn came
// make another round with a newer copy of the database. What is in the directory from an earlier
// backup is not copied again.
//
// Uploads on their way in are not part of a backup: their parts are in the staging, which is left
// out. Restore ends them, and clients send them again.
//
// A link shares its bytes with the installation: it protects from everything but the loss of the
// disk. Backups are for another disk, where they are copies.
package backup
