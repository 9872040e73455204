// Package problem renders a drive.Error for people and programs: as an RFC 9457 problem document,
// in English or Chinese, and as a page that says what each problem means and what to do about it.
//
// One table (rows) holds everything that is said about a drive.Kind: HTTP status, title, sentences,
// advice, retry hint. It does not decide what went wrong, does not log, and shows nothing that is
// not in drive.Error.Args: the cause of an error, and everything about an Internal one, stays with
// the server (DESIGN section 13).
package problem
