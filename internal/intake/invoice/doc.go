// Package invoice defines the common model that invoices of all formats are converted to: exact
// decimals, dates without time, parties, lines, taxes and totals, in the terms of EN 16931-1 (BT-1
// .. BT-165). It is plain data: package syntax reads files, package rule validates.
//
//	bytes ──syntax.Sniff, syntax.Decode──► *invoice.Document ──rule.Validate──► findings
//	                                            │
//	                                            ├── Key    issuer, number and date: identify an invoice worldwide
//	                                            └── Hash   content hash: equal for UBL, CII and the own model
//
// The JSON of a Document, one per line, is a format of this project ("NDJSON of the own model").
// Members are only ever added. Values that an invoice does not contain are left out, so a new
// member does not change the hashes of older documents.
//
// Invariants:
//
//	D1  An amount is the exact number in the file: no floats, no rounding while reading. 10, 10.0 and 10.00 are one number.
//	D2  Two documents with the same content have the same Hash, in any syntax; different content gives different hashes.
//	D3  Values that contradict each other are named in Repeated: a decoder does not choose silently.
//
// The model does not contain embedded files: an Attachment has only their size and SHA-256. Package
// envelope extracts them from the file.
package invoice
