// Package ingest takes in bundles of documents that others send: it checks them, counts them, and
// keeps what they say.
//
// It owns the tables sources, bundles, bundle_*, documents and document_conflicts. What a manifest
// may say is package bundle's business, how an invoice is read and judged that of package invoice;
// here is what becomes of which document, and that nothing is lost and nothing counts twice.
//
// # Words
//
// A **source** is somebody who sends: a folder /intake/SOURCE in an account's drive, with **rules**
// that say which documents are taken. A **bundle** is a folder below it whose meta.json has come:
// it is **sealed**. Its **members** are the other files that meta.json names. A **document** is an
// invoice in a member. What became of each is its **record**: accepted, rejected, duplicate or
// conflict.
//
// # Life
//
//	meta.json is seen       claim                   all dealt with
//	────────────────► sealed ─────────► running ────────────────────────► done
//	                    ▲                │ │ waits for a member, or for a    ▲
//	                    └────────────────┘ │ component: sealed, due later    │
//	                    ▲                  ▼                                 │
//	                    └──── retry ──── rejected ───── (a person, or another meta.json)
//
// # Rooms
//
// Intake is the way in, one line for each act. Behind it: **arrivals** (bundles that come to be
// seen), **checker** (the members against the manifest), **queue** (who works on which bundle),
// **workers** (a run through the documents of one), **library** (documents and conflicts),
// **catalog** (what owners read of bundles), **appeals** (rejected documents that a person wants
// all the same), **rulebook** (rules of sources), **reconciler** and **gatherer**.
//
// # How a bundle gets here
//
// The tree tells of each node that comes to be seen (Arrived). If that is the meta.json of a
// bundle, the bundle's row and a record of the stream are written by the same transaction. The
// record only wakes a worker: the row is what is true, workers look for rows that are due every few
// seconds, and a broker that is down for an hour delays nothing for longer. What was not told of,
// such as a folder that was moved with bundles in it, the reconciler finds every 5 minutes by
// comparing the tree with the rows. One instance does that for all, and it looks where something
// has changed: at the accounts that have a folder /intake and whose tree has another seq than after
// the last comparison. For folders /intake that it has not seen it asks 20,000 accounts in each
// pass.
//
// A source may send without manifests. What lands in its folder is gathered then: a folder of a
// bundle is made, files are moved into it, and the bundle's row says that they are its members.
// What nobody takes in is a **stray**, and is listed.
//
// # Who works
//
// As with exports: a worker takes a bundle under the next epoch, each of its statements names that
// epoch, and a lease that is not renewed for 30 s lets others take it. Documents are stored in
// batches; each batch is one transaction with its records, the counts and the save point. So a
// worker may die anywhere, and its heir goes on behind the last batch.
//
// # What is true
//
//	K1  a sealed bundle has a row, or the reconciler makes one within 5 minutes; below a folder /intake that is new, and that nobody
//	    told of, within a round over all accounts: 25 minutes for 100,000
//	K2  a bundle that has ended has declared = accepted + rejected + duplicates + conflicts (a CHECK), and its records say the same
//	K3  of source, seller, number and date there is one document in an account (a unique key)
//	K4  a statement of a worker whose epoch has passed changes no row
//	K5  a bundle ends: what cannot be taken in is rejected after a bounded number of tries, or a bounded wait
//	K6  a document is in conflict exactly while another side of it is open; it, its sides and the records that name it are of one
//	    account, and so are its files, as long as they are there
//	K7  a document has a PDF only of a bundle that had this document in it, with the same content; the first of them that is not deleted
//	K8  a file that lands in the folder of a source without manifests is moved into one bundle once it is quiet, and into no second one
//
// # Locks, in this order
//
//	bundle ─► documents by key ─► document_conflicts, bundle_records
package ingest
