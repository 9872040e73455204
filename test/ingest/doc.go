// Package ingest sends bundles of documents to the real binary on the cluster's components while
// instances are killed. It has tests only.
package ingest
