// Package problem renders a drive.Error for people and programs: as an RFC 9457 problem document,
// in English or Chinese, and as a page that explains each problem and what to do about it.
//
// One table (rows) holds all texts and properties of a drive.Kind: HTTP status, title, sentences,
// advice, retry hint. The package does not classify errors and does not log. It shows nothing that
// is not in drive.Error.Args: the cause of an error, and everything about an Internal one, stays on
// the server (DESIGN section 13).
package problem
