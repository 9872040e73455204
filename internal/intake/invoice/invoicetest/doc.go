// Package invoicetest makes invoices for tests and benchmarks: valid by every rule, different for
// each seed, equal for equal seeds in every process, and nobody's. Their tax numbers are of a form
// that no authority issues.
//
// New, Of and Chinese make documents; UBL, CII, Fapiao and NDJSON write them. What is written and
// read again is the same document.
package invoicetest
