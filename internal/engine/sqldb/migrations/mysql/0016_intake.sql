-- Bundles of documents that others send, and the documents that were in them. The row of a bundle is written by the transaction that
-- makes its meta.json visible. Who takes it in has its epoch, and changes nothing without it. What became of each document that the
-- manifest declares is a row of bundle_records; the CHECK of a bundle that has ended says that all of them are counted.
-- Undo: drop the tables; the files of bundles stay where they are, and can be taken in again.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS sources (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARBINARY(255) NOT NULL, -- the folder below /intake
  rules TEXT NOT NULL, -- which documents are taken, JSON
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bundles (
  id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  source VARBINARY(255) NOT NULL,
  sender_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the id that the sender gave it: the name of its folder
  folder_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  meta_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the node of meta.json
  meta_version CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- what sealed it
  state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- sealed | running | done | rejected
  reason VARBINARY(64) NOT NULL, -- why it was rejected, or what it waits for: a word
  detail VARBINARY(1024) NOT NULL, -- for people
  declared BIGINT NOT NULL DEFAULT 0, -- documents, by the manifest
  accepted BIGINT NOT NULL DEFAULT 0,
  rejected BIGINT NOT NULL DEFAULT 0,
  duplicates BIGINT NOT NULL DEFAULT 0,
  conflicts BIGINT NOT NULL DEFAULT 0,
  surplus BIGINT NOT NULL DEFAULT 0, -- documents found beyond the declared ones; none of them was taken
  members BIGINT NOT NULL DEFAULT 0,
  size BIGINT NOT NULL DEFAULT 0, -- bytes of the members, by the manifest
  checked BIGINT NOT NULL DEFAULT 0, -- 1: the members were held against the manifest
  save_member BIGINT NOT NULL DEFAULT 0, -- members up to this number are dealt with,
  save_index BIGINT NOT NULL DEFAULT 0, -- and so many documents of the next one
  epoch BIGINT NOT NULL DEFAULT 0, -- raised by each who takes the bundle, and by who ends it
  worker VARBINARY(255) NOT NULL, -- the instance that has it
  due_at BIGINT NOT NULL, -- sealed: may be taken from then on; running: the end of the lease
  tries BIGINT NOT NULL DEFAULT 0, -- taken so often without getting any further
  attempts BIGINT NOT NULL DEFAULT 0, -- taken so often
  sealed_at BIGINT NOT NULL,
  waits_until BIGINT NOT NULL, -- members that are missing may come until then
  ended_at BIGINT NOT NULL DEFAULT 0,
  CONSTRAINT bundles_dealt CHECK (accepted + rejected + duplicates + conflicts <= declared),
  CONSTRAINT bundles_counted CHECK (state NOT IN ('done', 'rejected') OR declared = accepted + rejected + duplicates + conflicts),
  UNIQUE KEY bundles_folder (folder_id),
  KEY bundles_due (state, due_at),
  KEY bundles_account (account_id, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bundle_members (
  bundle_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n BIGINT NOT NULL, -- from 1, the order of the manifest
  name VARBINARY(255) NOT NULL,
  size BIGINT NOT NULL,
  type VARBINARY(255) NOT NULL,
  sha256 CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  documents BIGINT NOT NULL, -- declared
  node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- the file
  blob_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- its content when it was checked
  state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- pending | done | rejected
  reason VARBINARY(64) NOT NULL,
  PRIMARY KEY (bundle_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bundle_records (
  bundle_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  member BIGINT NOT NULL, -- its number
  idx BIGINT NOT NULL, -- of the document in it, from 0
  outcome VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- accepted | rejected | duplicate | conflict
  reason VARBINARY(64) NOT NULL, -- a word
  counts BIGINT NOT NULL, -- documents that it stands for: those of a damaged member have one row
  document_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- what it is, or is a duplicate of, or in conflict with
  number VARBINARY(255) NOT NULL, -- as the document has it
  findings TEXT NOT NULL, -- JSON; empty: none
  PRIMARY KEY (bundle_id, member, idx),
  KEY bundle_records_outcome (bundle_id, outcome, member, idx),
  KEY bundle_records_document (document_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS documents (
  id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  source VARBINARY(255) NOT NULL,
  doc_key CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- SHA-256 of source, seller's id, number and date: what there is only one of
  hash CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of the document's model
  bundle_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- that it came with, as the idx-th of a member
  member BIGINT NOT NULL,
  idx BIGINT NOT NULL,
  type VARBINARY(255) NOT NULL,
  number VARBINARY(255) NOT NULL,
  dated VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- 2026-10-31
  seller_id VARBINARY(255) NOT NULL,
  seller_name VARBINARY(1024) NOT NULL,
  buyer_id VARBINARY(255) NOT NULL,
  buyer_name VARBINARY(1024) NOT NULL,
  currency VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  total VARBINARY(128) NOT NULL, -- exact
  payable VARBINARY(128) NOT NULL,
  total_e4 BIGINT NOT NULL, -- in ten-thousandths, rounded down, as far as that fits: to filter by
  state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- accepted | conflict
  file_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- the node of the member
  pdf_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  search VARCHAR(1024) NOT NULL, -- number and names, folded
  body LONGBLOB NOT NULL, -- the model, JSON, deflated
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE KEY documents_key (account_id, doc_key),
  KEY documents_dated (account_id, dated, id),
  KEY documents_source (account_id, source, dated, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS document_conflicts (
  id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  document_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  hash CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  bundle_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  member BIGINT NOT NULL,
  idx BIGINT NOT NULL,
  file_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  pdf_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  body LONGBLOB NOT NULL, -- the other side: open, or what settling has put aside
  state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- open | discarded | replaced
  created_at BIGINT NOT NULL,
  settled_at BIGINT NOT NULL DEFAULT 0,
  settled_by CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  UNIQUE KEY document_conflicts_side (document_id, hash),
  KEY document_conflicts_open (account_id, state, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS document_conflicts;
DROP TABLE IF EXISTS documents;
DROP TABLE IF EXISTS bundle_records;
DROP TABLE IF EXISTS bundle_members;
DROP TABLE IF EXISTS bundles;
DROP TABLE IF EXISTS sources;
