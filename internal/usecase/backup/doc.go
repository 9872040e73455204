// Package backup copies an embedded installation while it runs, and restores such copies.
//
//	<backup>/manifest.json           describes the backup; replaced last, so it always describes a complete backup
//	<backup>/database-<ms>.db        copy of the database, named by the manifest
//	<backup>/blobs/ab/<file>         all content files that this database names, and no others;
//	                                 small contents are in packs, as in the installation
//
// The database is copied first, as a snapshot. Contents are immutable (B1) and deleted a while
// after their last reference, so the files that the copy names can then be transferred one by one:
// as hard links if possible, else as copies. If files were deleted before their turn, another round
// starts with a newer copy of the database. Files that the directory has from an earlier backup are
// not transferred again.
//
// Open uploads are not part of a backup, because the staging is left out. Restore ends them, and
// clients start them again.
//
// A hard link shares its bytes with the installation, so it protects from everything but the loss
// of the disk. Backups belong on another disk, where the files are copied.
package backup
