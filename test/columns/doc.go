// Package columns runs one random script of what people do against every way to put SmartDrive
// together: SQLite with a directory, MySQL with a directory, MySQL with Redis and S3, the same with
// Kafka, and two instances of that, each request to one of them by lot. All must answer alike:
// status, headers and body of every answer, but for ids, times and secrets, which are told by the
// order in which they appear. At the end of a script the ledgers, the trees and the bytes are
// compared, and each column is checked by fsck. What may differ is the table in meant_test.go, with
// its reasons. It has tests only.
//
// Who may do what is asked of each column by itself, and compared with a model (access_test.go).
//
// Each column plays a script to its end by itself; then the transcripts are laid side by side. A
// script that makes a difference is cut down to the few operations that it takes. See
// TestOneScriptHasTheSameAnswersOnAllColumns for how to run one again.
package columns
