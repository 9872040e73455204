// Package syntax reads invoices: UBL 2.1 Invoice and CreditNote, UN/CEFACT Cross Industry Invoice,
// the XML of the Chinese fully digital invoice, and the own model as NDJSON. It reads a stream from
// front to back, keeps one document in memory at a time, and bounds everything that a hostile file
// could make large; see Limits. It does not validate the content; package rule does.
//
// An XML file holds one invoice. Package envelope reads archives (zip, OFD) and PDF.
//
// Callers must distinguish three kinds of errors:
//
//	*Error of kind Unsupported   the format, charset or profile is unknown to SmartDrive; the document may be valid
//	*Error of any other kind     the document is invalid; tell its sender the reason
//	any other error              an error of the underlying reader; nothing is known about the document, so retry
package syntax
