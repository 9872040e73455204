// Package zipline computes zip archives without building them. From a sealed list of entries it
// computes any range of the archive's bytes and reads the contents from the store while sending.
// There is no temporary file, the length is known before the first byte, and the bytes are the same
// on each instance, after each restart and with each release (docs/export.md describes the format).
//
// The package knows no database and no batch. Terms: an **entry** is a file, folder or text inside
// the archive; the **manifest** is the frozen list of entries; the **layout** maps offsets of the
// archive to entries; **glue** are all bytes of an archive that are not contents of entries.
//
// Invariants:
//   - Z1: the bytes of an archive depend only on its manifest and LayoutVersion. golden_test.go pins three archives.
//   - Z2: names are unique, also regardless of case and normalisation, and never lead out of the directory they are unpacked to.
//   - Z3: a reader delivers the last byte of an entry only if the entry has the length and CRC-32 of the manifest. Otherwise it fails
//     before that byte; of an entry of up to 1 MiB it delivers no byte at all. Options.VerifyLimit limits this check.
//   - Z4: a reader keeps at most Options.Window bytes in memory, for any size of archive and any speed of the client.
package zipline
