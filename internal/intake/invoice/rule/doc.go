// Package rule validates invoices: against the rules of EN 16931-1 (BR, BR-CO, BR-DEC, BR-CL and
// those of each VAT category), and of the Chinese fully digital invoice. Rules are tables.
// docs/invoice-rules.md lists them, and a test keeps tables and page equal.
//
// A code that is in no list of this package may be from a newer version of its list. It is
// therefore a warning, unless the list is closed.
package rule
