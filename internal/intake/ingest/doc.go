// Package ingest imports bundles of documents that sources upload: it checks them, counts them, and
// stores the content of their documents.
//
// It owns the tables sources, bundles, bundle_*, documents and document_conflicts. Package bundle
// defines the manifest; package invoice and its subpackages read and validate invoices. This
// package decides the outcome of each document, and ensures that no document is lost or counted
// twice.
//
// # Terms
//
// A **source** is a sender: a folder /intake/SOURCE in an account's drive, with **rules** that
// select the documents to accept. A **bundle** is a folder below it; the arrival of its meta.json
// **seals** it. Its **members** are the other files that meta.json names. A **document** is an
// invoice in a member. A **record** stores the outcome of a document: accepted, rejected, duplicate
// or conflict. Documents are in **conflict** if source, seller, number and date are equal and the
// content differs; each version is a **side** of the conflict. The **picture** of a document is the
// PDF that shows it. **Surplus** documents are those that a member contains beyond the declared
// number.
//
// # States of a bundle
//
//	meta.json arrives       claim                   all documents handled
//	────────────────► sealed ─────────► running ────────────────────────► done
//	                    ▲                │ │ waits for a member, or for a    ▲
//	                    └────────────────┘ │ component: sealed, due later    │
//	                    ▲                  ▼                                 │
//	                    └──── retry ──── rejected ───── (a person, or another meta.json)
//
// # Structure
//
// Intake is the public type; each of its methods forwards to one of these: **bundleRecorder**
// (records new bundles), **checker** (compares members with the manifest), **queue** (claims
// bundles and records results), **workers** (process the documents of bundles), **library**
// (documents and conflicts), **catalog** (lists bundles and records), **acceptor** (accepts
// rejected documents by hand), **rulebook** (rules of sources), **reconciler** (finds missed
// bundles) and **gatherer** (makes bundles of files without a manifest).
//
// # How a bundle arrives
//
// The tree calls Arrived for each node that becomes visible. If the node is the meta.json of a
// bundle, the same transaction writes the bundle's row and a stream event. The event only wakes a
// worker: the row is authoritative, and workers poll for due rows every few seconds, so a broker
// outage only delays a bundle by a polling interval. Some arrivals are not reported, such as a
// moved folder that contains bundles. The reconciler finds those every 5 minutes by comparing the
// tree with the rows. One instance does so for all, and only for accounts that have a folder
// /intake and whose tree has another seq than at the last comparison. To find new folders /intake
// it checks 20,000 accounts in each pass.
//
// A source may upload files without manifests. The gatherer then creates a bundle's folder, moves
// the files into it, and marks the bundle's row as gathered. Anything else below /intake that is
// not part of a bundle is a **stray**, and is listed.
//
// # Leases
//
// A worker claims a bundle under the next epoch, a fencing token that each of its statements
// checks. If the lease is not renewed for 30 s, another worker may claim the bundle. Documents are
// stored in batches. Each batch is one transaction together with its records, the counts and the
// save point. A worker may therefore die at any point, and the next one continues after the last
// batch.
//
// # Invariants
//
//	K1  a sealed bundle has a row, or the reconciler inserts one within 5 minutes; below a new folder /intake that was not reported,
//	    within a round over all accounts: 25 minutes for 100,000
//	K2  a bundle that has ended has declared = accepted + rejected + duplicates + conflicts (a CHECK), and its records give the same sums
//	K3  an account has one document per source, seller, number and date (a unique key)
//	K4  a statement of a worker whose epoch is stale changes no row
//	K5  every bundle ends: a bundle that cannot be processed is rejected after a bounded number of tries, or a bounded wait
//	K6  a document is in conflict exactly while another side of it is open; the document, its sides and the records that name it belong
//	    to one account, and so do its files, as long as they exist
//	K7  a document has a PDF only from a bundle that contained this document with the same content; it is the first such PDF that is
//	    not deleted
//	K8  a file in the folder of a source without manifests is moved into exactly one bundle once it is quiet
//
// # Lock order
//
//	bundle ─► documents by key ─► document_conflicts, bundle_records
package ingest
