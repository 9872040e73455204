// Package rule judges invoices: the rules of EN 16931-1 (BR, BR-CO, BR-DEC, BR-CL and those of each
// VAT category), and those of the Chinese fully digital invoice. Rules are tables;
// docs/invoice-rules.md lists them, and a test keeps both equal.
//
// A code that is in none of the lists here may be from a newer version of its list: that is a
// warning, unless the list is closed.
package rule
