// Package bundle is the manifest of a bundle of documents, meta.json: what a sender promises, and
// what whoever takes a bundle in holds its members against. It does no I/O but on what it is given.
//
// A bundle is a folder that is filled first and sealed last:
//
//	/intake/SOURCE/BUNDLE-ID/   SOURCE: who sends; BUNDLE-ID: a UUIDv7 that the sender made, once
//	    invoice-1.xml           members, flat, in any order
//	    invoice-1.pdf
//	    meta.json               the manifest, last: from here on the bundle is sealed
//
// How many documents a member holds is counted alike by who sends and who reads: one for a file of
// XML, whatever it says; as many as there are lines that are not blank for NDJSON; none for
// anything else, which belongs to a document of the same bundle.
//
// A manifest that Decode returns, and one that Encode wrote, keeps:
//
//	M1  its schema is one that this program knows, its id is a UUIDv7 in its usual text form, its source a name for a folder
//	M2  1 to 10,000 members; each name may stand in a drive as it is, and no two are equal, not even in another case
//	M3  sizes and numbers of documents are not negative, and their sums fit: nothing that adds them up can overflow
//	M4  it is at most 4 MiB long
package bundle
