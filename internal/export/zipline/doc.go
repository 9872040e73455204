// Package zipline is a zip archive that is never built: a sealed list of entries goes in, and any
// range of the archive's bytes comes out, computed from the list and read from the store. There is
// no temporary file, the length is known before the first byte, and the bytes are the same on every
// instance, after every restart and with every release (docs/export.md has the format).
//
// It knows no database and no batch. Its words: an **entry** is a file, folder or text inside the
// archive; the **manifest** is the frozen list of entries; the **layout** says at which offset of
// the archive which byte of what lies; **glue** is everything in an archive that is not the content
// of an entry.
//
// What it promises:
//   - Z1: the bytes of an archive are a function of its manifest and LayoutVersion alone. golden_test.go keeps three of them.
//   - Z2: names are unique, also where case and normalisation do not count, and never lead out of the directory they are unpacked to.
//   - Z3: whoever is given the last byte of an entry is given an entry whose length and CRC-32 are those of the manifest. Else the
//     reader fails before that byte, and of an entry of up to a MiB not even the first one is delivered. Options.Recheck has the limit.
//   - Z4: a reader keeps at most Options.Window bytes in memory, however large the archive is and however slow the client.
package zipline
