-- Bundles of documents that others send, and the documents that were in them. The row of a bundle is written by the transaction that
-- makes its meta.json visible. Who takes it in has its epoch, and changes nothing without it. What became of each document that the
-- manifest declares is a row of bundle_records; the CHECK of a bundle that has ended says that all of them are counted.
-- Undo: drop the tables; the files of bundles stay where they are, and can be taken in again.
-- +goose Up
CREATE TABLE sources (
  account_id TEXT NOT NULL,
  name TEXT NOT NULL, -- the folder below /intake
  rules TEXT NOT NULL, -- which documents are taken, JSON
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, name)
) WITHOUT ROWID;

CREATE TABLE bundles (
  id TEXT NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  source TEXT NOT NULL,
  sender_id TEXT NOT NULL, -- the id that the sender gave it: the name of its folder
  folder_id TEXT NOT NULL,
  meta_id TEXT NOT NULL, -- the node of meta.json
  meta_version TEXT NOT NULL, -- what sealed it
  state TEXT NOT NULL, -- sealed | running | done | rejected
  reason TEXT NOT NULL, -- why it was rejected, or what it waits for: a word
  detail TEXT NOT NULL, -- for people
  declared INTEGER NOT NULL DEFAULT 0, -- documents, by the manifest
  accepted INTEGER NOT NULL DEFAULT 0,
  rejected INTEGER NOT NULL DEFAULT 0,
  duplicates INTEGER NOT NULL DEFAULT 0,
  conflicts INTEGER NOT NULL DEFAULT 0,
  surplus INTEGER NOT NULL DEFAULT 0, -- documents found beyond the declared ones; none of them was taken
  members INTEGER NOT NULL DEFAULT 0,
  size INTEGER NOT NULL DEFAULT 0, -- bytes of the members, by the manifest
  checked INTEGER NOT NULL DEFAULT 0, -- 1: the members were held against the manifest
  save_member INTEGER NOT NULL DEFAULT 0, -- members up to this number are dealt with,
  save_index INTEGER NOT NULL DEFAULT 0, -- and so many documents of the next one
  epoch INTEGER NOT NULL DEFAULT 0, -- raised by each who takes the bundle, and by who ends it
  worker TEXT NOT NULL, -- the instance that has it
  due_at INTEGER NOT NULL, -- sealed: may be taken from then on; running: the end of the lease
  tries INTEGER NOT NULL DEFAULT 0, -- taken so often without getting any further
  attempts INTEGER NOT NULL DEFAULT 0, -- taken so often
  sealed_at INTEGER NOT NULL,
  waits_until INTEGER NOT NULL, -- members that are missing may come until then
  ended_at INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT bundles_dealt CHECK (accepted + rejected + duplicates + conflicts <= declared),
  CONSTRAINT bundles_counted CHECK (state NOT IN ('done', 'rejected') OR declared = accepted + rejected + duplicates + conflicts)
);
CREATE UNIQUE INDEX bundles_folder ON bundles (folder_id);
CREATE INDEX bundles_due ON bundles (state, due_at);
CREATE INDEX bundles_account ON bundles (account_id, id);

CREATE TABLE bundle_members (
  bundle_id TEXT NOT NULL,
  n INTEGER NOT NULL, -- from 1, the order of the manifest
  name TEXT NOT NULL,
  size INTEGER NOT NULL,
  type TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  documents INTEGER NOT NULL, -- declared
  node_id TEXT, -- the file
  blob_id TEXT, -- its content when it was checked
  state TEXT NOT NULL, -- pending | done | rejected
  reason TEXT NOT NULL,
  PRIMARY KEY (bundle_id, n)
) WITHOUT ROWID;

CREATE TABLE bundle_records (
  bundle_id TEXT NOT NULL,
  member INTEGER NOT NULL, -- its number
  idx INTEGER NOT NULL, -- of the document in it, from 0
  outcome TEXT NOT NULL, -- accepted | rejected | duplicate | conflict
  reason TEXT NOT NULL, -- a word
  counts INTEGER NOT NULL, -- documents that it stands for: those of a damaged member have one row
  document_id TEXT, -- what it is, or is a duplicate of, or in conflict with
  number TEXT NOT NULL, -- as the document has it
  findings TEXT NOT NULL, -- JSON; empty: none
  PRIMARY KEY (bundle_id, member, idx)
) WITHOUT ROWID;
CREATE INDEX bundle_records_outcome ON bundle_records (bundle_id, outcome, member, idx);
CREATE INDEX bundle_records_document ON bundle_records (document_id);

CREATE TABLE documents (
  id TEXT NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  source TEXT NOT NULL,
  doc_key TEXT NOT NULL, -- SHA-256 of source, seller's id, number and date: what there is only one of
  hash TEXT NOT NULL, -- of the document's model
  bundle_id TEXT NOT NULL, -- that it came with, as the idx-th of a member
  member INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  type TEXT NOT NULL,
  number TEXT NOT NULL,
  dated TEXT NOT NULL, -- 2026-10-31
  seller_id TEXT NOT NULL,
  seller_name TEXT NOT NULL,
  buyer_id TEXT NOT NULL,
  buyer_name TEXT NOT NULL,
  currency TEXT NOT NULL,
  total TEXT NOT NULL, -- exact
  payable TEXT NOT NULL,
  total_e4 INTEGER NOT NULL, -- in ten-thousandths, rounded down, as far as that fits: to filter by
  state TEXT NOT NULL, -- accepted | conflict
  file_id TEXT, -- the node of the member
  pdf_id TEXT,
  search TEXT NOT NULL, -- number and names, folded
  body BLOB NOT NULL, -- the model, JSON, deflated
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX documents_key ON documents (account_id, doc_key);
CREATE INDEX documents_dated ON documents (account_id, dated, id);
CREATE INDEX documents_source ON documents (account_id, source, dated, id);

CREATE TABLE document_conflicts (
  id TEXT NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  document_id TEXT NOT NULL,
  hash TEXT NOT NULL,
  bundle_id TEXT NOT NULL,
  member INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  file_id TEXT,
  pdf_id TEXT,
  body BLOB NOT NULL, -- the other side: open, or what settling has put aside
  state TEXT NOT NULL, -- open | discarded | replaced
  created_at INTEGER NOT NULL,
  settled_at INTEGER NOT NULL DEFAULT 0,
  settled_by TEXT
);
CREATE UNIQUE INDEX document_conflicts_side ON document_conflicts (document_id, hash);
CREATE INDEX document_conflicts_open ON document_conflicts (account_id, state, id);

-- +goose Down
DROP TABLE document_conflicts;
DROP TABLE documents;
DROP TABLE bundle_records;
DROP TABLE bundle_members;
DROP TABLE bundles;
DROP TABLE sources;
