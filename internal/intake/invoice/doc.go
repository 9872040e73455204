// Package invoice is the one model that all invoices are converted to, whatever syntax they came
// in: exact decimals, dates without a time, parties, lines, taxes and totals, in the terms of EN
// 16931-1 (BT-1 .. BT-165). It is plain data: it reads no files (package syntax), and judges
// nothing (package rule).
//
//	bytes ──syntax.Sniff, syntax.Decode──► *invoice.Document ──rule.Validate──► findings
//	                                            │
//	                                            ├── Key    who, which number, when: one invoice of the world
//	                                            └── Hash   what it says: equal in UBL, CII and the own model
//
// The JSON of a Document, one per line, is the project's own format ("NDJSON of the own model").
// Members are only added. What an invoice does not say is absent, so a new member leaves the hashes
// of older documents as they are.
//
// Invariants:
//
//	D1  An amount is the number that was written: no floats, no rounding while reading. 10, 10.0 and 10.00 are one number.
//	D2  Two documents that say the same have the same Hash, in any syntax; others differ in it.
//	D3  What an invoice contradicts itself in stands in Repeated: a decoder does not choose.
//
// Embedded files are no part of the model: an Attachment has their size and SHA-256. Package
// envelope takes them out of the file again.
package invoice
