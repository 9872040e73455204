// Package syntax reads invoices: UBL 2.1 Invoice and CreditNote, UN/CEFACT Cross Industry Invoice,
// the XML of the Chinese fully digital invoice, and the own model as NDJSON. It reads a stream from
// front to back, keeps one document in memory at a time, and trusts nothing: see Limits. It does
// not judge what an invoice says; package rule does.
//
// A container of XML holds one invoice. Archives (zip, OFD) and PDF are the matter of package
// envelope.
//
// Errors are of three sorts, and a caller must tell them apart:
//
//	*Error of kind Unsupported   a format, charset or profile that SmartDrive does not know. It says nothing about the document.
//	*Error of any other kind     the document is at fault: the reason is for its sender.
//	anything else                the reader's own error. Nothing is known about the document; try again.
package syntax
