// Package invoicetest generates invoices for tests and benchmarks: valid by all rules, different
// for each seed, and reproducible for equal seeds. Their tax numbers have a form that no authority
// issues.
//
// New, Of and Chinese generate documents. UBL, CII, Fapiao and NDJSON encode them. Decoding the
// result gives the same document.
package invoicetest
