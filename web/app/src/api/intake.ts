// Documents that other software sends in bundles, and what became of each.
import { apiURL, call, listAll, type Page, type Query } from "./client";

export interface Party {
  id: string;
  name: string;
}

export interface Doc {
  id: string;
  source: string;
  type: string; // UNTDID 1001
  number: string;
  date: string;
  seller: Party;
  buyer: Party;
  currency: string;
  total: string; // exact
  payable: string;
  state: "accepted" | "conflict";
  file: string | null; // nodes
  pdf: string | null;
  bundle: string;
}

/** A value of the model of a document: objects, lists and texts; amounts are texts. */
export type Model = { [field: string]: unknown };

export interface DocEvent {
  at: string;
  what: string;
  bundle: string;
  member: string;
  index: number;
  by?: string; // a user
}

/** A file that is embedded in a document, only linked, or only named. */
export interface Attachment {
  id?: string;
  text?: string;
  url?: string;
  name?: string;
  type?: string;
  size?: number; // of an embedded one
  sha256?: string;
}

export interface DocDetail extends Doc {
  created_at: string;
  model: Model;
  history: DocEvent[];
}

export type Outcome = "accepted" | "rejected" | "duplicate" | "conflict";

export interface Bundle {
  id: string;
  source: string;
  folder: string; // node
  state: "sealed" | "running" | "done" | "rejected";
  reason: string | null; // a word
  detail?: string; // the same, for people
  gathered?: boolean; // made of files that came without a manifest
  declared: number;
  accepted: number;
  rejected: number;
  duplicate: number;
  conflict: number;
  surplus: number;
  members: number;
  size: number;
  sealed_at: string;
  ended_at: string | null;
  attempts: number;
}

export interface Member {
  name: string;
  size: number;
  type: string;
  documents: number;
  node: string | null;
  state: string;
  reason: string | null;
}

export interface BundleDetail extends Omit<Bundle, "members"> {
  members: Member[];
}

export interface Finding {
  rule: string;
  severity: "fatal" | "warning";
  text: string;
  place?: string; // a path of XPath
  line?: number;
  expected?: string;
  found?: string;
}

export interface BundleRecord {
  member: string; // empty: the bundle was rejected as a whole
  index: number;
  outcome: Outcome;
  reason: string | null;
  count: number; // documents that it stands for
  document: string | null;
  number: string;
  findings: Finding[];
  place: string; // in its bundle
  decision?: { by: string; at: string; reason: string }; // of one that was rejected and accepted all the same
}

export interface Rejection extends BundleRecord {
  bundle: string;
  source: string;
}

/** What a list of rejections may be narrowed to, and the language that it speaks. */
export interface RejectionFilter extends Query {
  source: string;
  reason: string;
  lang: string;
}

export interface ConflictSide {
  bundle: string;
  number: string;
  file: string | null;
  pdf: string | null;
  model: Model;
}

export interface Conflict {
  id: string;
  document: Doc;
  at: string;
  old: ConflictSide;
  new: ConflictSide;
}

/** What a list of documents may be narrowed to. */
export interface DocFilter extends Query {
  month?: string;
  source?: string;
  seller?: string;
  buyer?: string;
  min?: string;
  max?: string;
  currency?: string;
  state?: string;
  q?: string;
}

const pageSize = 100;

export const documents = (filter: DocFilter, cursor?: string | null, signal?: AbortSignal) =>
  call<Page<Doc>>("GET", "/documents", { query: { ...filter, limit: pageSize, cursor }, signal });
export const documentOf = (id: string) => call<DocDetail>("GET", `/documents/${id}`);
export const attachmentURL = (document: string, sha256: string) => apiURL(`/documents/${document}/attachments/${sha256}`);
export const documentsURL = (filter: DocFilter, format: "csv" | "ndjson") => apiURL("/documents", { ...filter, format });

/** What documents of one currency come to; amounts are exact, credit notes are subtracted. */
export interface Total {
  key: string;
  name?: string;
  currency: string;
  documents: number;
  credits: number;
  net: string;
  tax: string;
  gross: string;
  payable: string;
}
export type By = "currency" | "seller" | "month" | "vat";
export const totals = (filter: DocFilter, by: By, signal?: AbortSignal) =>
  call<Page<Total>>("GET", "/documents/totals", { query: { ...filter, by }, signal }).then((page) => page.items);
export const totalsURL = (filter: DocFilter, by: By) => apiURL("/documents/totals", { ...filter, by, format: "csv" });

export const conflicts = (cursor?: string | null) => call<Page<Conflict>>("GET", "/conflicts", { query: { limit: pageSize, cursor } });
export const conflictOf = (id: string) => call<Conflict>("GET", `/documents/${id}/conflict`);
export const settle = (c: Conflict, keep: "old" | "new") =>
  call<DocDetail>("POST", `/documents/${c.document.id}/settle`, { body: { keep, conflict: c.id } });

/** Settles up to 1,000 open conflicts in one way. */
export const settleMany = (keep: "old" | "new", conflicts: string[]) =>
  call<{ settled: number; left: number }>("POST", "/conflicts/settle", { body: { keep, conflicts } });

export const bundles = (filter: { source?: string; state?: string }, cursor?: string | null) =>
  call<Page<Bundle>>("GET", "/bundles", { query: { ...filter, limit: pageSize, cursor } });
export const bundleOf = (id: string) => call<BundleDetail>("GET", `/bundles/${id}`);
export const recordsOf = (id: string, outcome: Outcome | "", lang: string, cursor?: string | null) =>
  call<Page<BundleRecord>>("GET", `/bundles/${id}/records`, { query: { outcome, lang, limit: pageSize, cursor } });
export const rejections = (filter: RejectionFilter, cursor?: string | null) =>
  call<Page<Rejection>>("GET", "/rejections", { query: { ...filter, limit: pageSize, cursor } });
export const rejectionsURL = (filter: RejectionFilter) => apiURL("/rejections", { ...filter, format: "csv" });
export const acceptAnyway = (r: Rejection, reason: string) => call<BundleRecord>("POST", `/bundles/${r.bundle}/accept`, { body: { place: r.place, reason } });
/** Something below /intake that is no bundle, so that nobody takes it in. */
export interface Stray {
  node: string;
  path: string;
  reason: "loose-file" | "no-manifest" | "folder-name" | "too-deep" | "source-name";
  files: number;
  changed_at: string;
}
export const strays = (cursor?: string | null, signal?: AbortSignal) => call<Page<Stray>>("GET", "/strays", { query: { limit: pageSize, cursor }, signal });
export const retryBundle = (id: string) => call("POST", `/bundles/${id}/retry`);

/** Which documents of a source are taken; what is left out does not narrow. */
export interface Rules {
  types?: string[]; // UNTDID 1001
  from?: string; // days of issue
  to?: string;
  sellers?: string[]; // ids
  buyers?: string[];
  min?: string; // totals with VAT
  max?: string;
  profile?: string; // rules besides: xrechnung, peppol
  plain?: boolean; // files without a manifest are taken in
  conflicts?: string; // which side counts by itself: old, new
}

export interface Source {
  name: string;
  rules: Rules;
  updated_at: string;
}

export const sources = () => listAll<Source>("/sources");
export const putRules = (name: string, rules: Rules) => call<Source>("PUT", `/sources/${encodeURIComponent(name)}`, { body: { rules } });
export const forgetRules = (name: string) => call("DELETE", `/sources/${encodeURIComponent(name)}`);

/** Whether anything was ever sent here. */
export const hasBundles = () =>
  call<Page<Bundle>>("GET", "/bundles", { query: { limit: 1 } }).then((page) => page.items.length > 0, () => false);
