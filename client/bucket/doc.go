// Package bucket forwards document bundles from an S3 bucket that another program fills to a
// SmartDrive server. It implements SOURCES V1 and V2 for senders that know only S3.
//
//	bucket   PREFIX/SOURCE/ID/invoices.xml      drive   /intake/SOURCE/ID/invoices.xml
//	         PREFIX/SOURCE/ID/meta.json    ─►           /intake/SOURCE/ID/meta.json
//
// SOURCE and ID are as in package bundle. The object meta.json seals a bundle: the forwarder copies
// its members, checks them against the manifest, and copies meta.json last, which makes the server
// take the bundle in. Objects of the bucket are only read.
//
// The bucket listing is the truth. A pass lists the ids of the last days, because an id begins with
// its time; an hourly pass lists all ids. S3 event notifications in a Kafka topic only start a copy
// earlier: a lost, repeated or reordered event changes nothing.
//
// The forwarder keeps no state on disk. It may die anywhere, and several may run at once: each copy
// replaces a file by the same content, and the server takes in one meta.json once.
package bucket
