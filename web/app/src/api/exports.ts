// Zips of several files, or of folders, put together by the server.
import { apiURL, call } from "./client";

export interface Batch {
  id: string;
  state: "pending" | "running" | "sealed" | "aborted" | "failed" | "cancelled" | "expired";
  total: number;
  collected: number;
  failed: number;
  error?: string;
}

export const createExport = (nodes: string[], name: string) => call<Batch>("POST", "/exports", { body: { nodes, name }, once: true });
export const exportOf = (id: string) => call<Batch>("GET", `/exports/${id}`);
export const cancelExport = (id: string) => call("DELETE", `/exports/${id}`);
export const exportURL = (id: string) => apiURL(`/exports/${id}/content`);
