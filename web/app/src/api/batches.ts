// Exports: zips of many documents that the server collects, and keeps until they end.
import { apiURL, call, type Page } from "./client";

export interface Batch {
  id: string;
  name: string;
  origin: "manual" | "schedule" | "supplement";
  root: string;
  revision: number;
  part: number;
  parts: number; // of a list that is too long for one zip
  state: "pending" | "running" | "sealed" | "aborted" | "failed" | "cancelled" | "expired";
  total: number; // entries
  collected: number;
  failed: number;
  eta: number | null; // seconds
  error?: string;
  size: number; // bytes; 0 until it is sealed
  created_at: string;
  expires_at: string | null;
  joined?: boolean; // of an answer: there was one of the same folder and month, and this is it
}

export interface Failure {
  n: number;
  id: string;
  path: string;
  reason: string;
  detail?: string;
}

/** Which files of a folder; days are 2026-10-31. */
export interface Filter {
  from?: string;
  to?: string;
  since_last?: boolean;
  ext?: string[];
  pattern?: string;
  documents?: boolean;
  xml?: boolean;
  month?: string; // such as 2026-10
  of?: Record<string, string>; // which documents
  zone?: string;
}

/** What both an export of a folder and a schedule say. */
export interface Wish {
  folder: string;
  name?: string;
  filter: Filter;
  names?: string;
  index?: boolean;
  again?: boolean; // another one of the folder's month
}

/** Another source of what failed: a file of the drive or a document elsewhere. */
export interface Supplied {
  n: number; // of the failure
  node?: string;
  url?: string;
}

/** What is exported each month: a folder, or what a file of the drive lists then. */
export type Plan = (Wish | { list: string; name?: string | undefined }) & { zone: string };

export interface Schedule extends Partial<Wish> {
  id: string;
  name: string;
  zone: string;
  bucket: boolean;
  month: string; // the next one
  due_at: string;
  skipped?: { month: string; reason: string };
}

export const exportFolder = (wish: Wish) => call<Batch>("POST", "/exports", { body: wish, once: true });
export const exportNodes = (nodes: string[], name: string) => call<Batch>("POST", "/exports", { body: { nodes, name }, once: true });
export const schedules = (cursor: string | null) => call<Page<Schedule>>("GET", "/export-schedules", { query: { limit: 100, cursor } });
export const makeSchedule = (wish: Plan) => call<Schedule>("POST", "/export-schedules", { body: wish });
export const endSchedule = (id: string) => call("DELETE", `/export-schedules/${id}`);
export const batches = (cursor: string | null) => call<Page<Batch>>("GET", "/exports", { query: { limit: 50, cursor } });
export const failuresOf = (id: string, cursor: string | null, limit = 100) => call<Page<Failure>>("GET", `/exports/${id}/errors`, { query: { limit, cursor } });
export const exportList = (name: string, list: string) => call<Batch>("POST", "/exports/manifest", { query: { name }, raw: list, once: true });
export const supplement = (id: string, items: Supplied[] = []) => call<Batch>("POST", `/exports/${id}/supplement`, { body: { mode: "complete", items }, once: true });
export const endBatch = (id: string) => call("DELETE", `/exports/${id}`);
export const batchURL = (id: string) => apiURL(`/exports/${id}/content`);
/** Of a zip of what has been collected by now. */
export const soFarURL = (id: string) => apiURL(`/exports/${id}/content?so_far=true`);
export const linkTo = (id: string, seconds: number) => call<{ url: string; expires_at: string }>("POST", `/exports/${id}/links`, { body: { expires_in: seconds } });
