// Package bundle reads, writes and checks the manifest (meta.json) of a bundle of documents. The
// manifest declares the files of a bundle with sizes and SHA-256 sums; the server checks the files
// against it. The package does no I/O except on the reader that the caller passes.
//
// A bundle is a folder. The sender uploads the members first and the manifest last:
//
//	/intake/SOURCE/BUNDLE-ID/   SOURCE: the name of the sender; BUNDLE-ID: a UUIDv7 that the sender generates once
//	    invoice-1.xml           members, flat, in any order
//	    invoice-1.pdf
//	    meta.json               the manifest; its arrival seals the bundle
//
// Sender and server count the documents of a member by the same rule: one for an XML file, whatever
// its content; the number of non-blank lines for NDJSON; zero for any other file, which belongs to
// a document of the same bundle.
//
// Every manifest that Decode returns or Encode writes satisfies:
//
//	M1  the schema is a known version, the id is a UUIDv7 in canonical text form, the source is a valid folder name
//	M2  1 to 10,000 members; each name is a valid drive name as it stands, and no two are equal, ignoring case
//	M3  sizes and document counts are not negative, and their sums do not overflow
//	M4  the encoded manifest is at most 4 MiB long
package bundle
