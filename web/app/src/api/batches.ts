// Exports: zips of many documents that the server collects, and keeps until they end.
import { apiURL, call, type Page } from "./client";

export interface Batch {
  id: string;
  name: string;
  origin: "manual" | "schedule" | "supplement";
  root: string;
  revision: number;
  state: "pending" | "running" | "sealed" | "aborted" | "failed" | "cancelled" | "expired";
  total: number; // entries
  collected: number;
  failed: number;
  eta: number | null; // seconds
  error?: string;
  size: number; // bytes; 0 until it is sealed
  created_at: string;
  expires_at: string | null;
}

export interface Failure {
  n: number;
  id: string;
  path: string;
  reason: string;
  detail?: string;
}

export const batches = (cursor: string | null) => call<Page<Batch>>("GET", "/exports", { query: { limit: 50, cursor } });
export const failuresOf = (id: string, cursor: string | null) => call<Page<Failure>>("GET", `/exports/${id}/errors`, { query: { limit: 100, cursor } });
export const exportList = (name: string, list: string) => call<Batch>("POST", "/exports/manifest", { query: { name }, raw: list, once: true });
export const supplement = (id: string) => call<Batch>("POST", `/exports/${id}/supplement`, { body: { mode: "complete" }, once: true });
export const endBatch = (id: string) => call("DELETE", `/exports/${id}`);
export const batchURL = (id: string) => apiURL(`/exports/${id}/content`);
export const linkTo = (id: string, seconds: number) => call<{ url: string; expires_at: string }>("POST", `/exports/${id}/links`, { body: { expires_in: seconds } });
