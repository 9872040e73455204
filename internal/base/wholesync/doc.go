// Package wholesync makes many small files durable at once: it syncs the file system that they are
// on. That also waits for what others have written there.
//
// The system tells of bytes that could not be written once, to each handle that was opened before.
// So a handle is opened before the files are written, by each who writes some; after an error
// nobody knows whose bytes they were.
package wholesync
