// Work on many items that the server goes on with by itself.
import { call, type Page } from "./client";
import type { Conflict } from "./nodes";

export type OperationKind = "trash" | "restore" | "delete" | "move" | "copy" | "unshare" | "subtree";

export interface Operation {
  id: string;
  kind: OperationKind;
  state: "running" | "done" | "cancelled" | "failed";
  done: number; // items dealt with, failures included
  failed: number;
  total: number;
  error: string;
  parent: string | null;
  undoable: boolean;
  undoes: string | null;
  undone_by: string | null;
  created_at: string;
  updated_at: string;
}

/** Either ids, or what there is in a place at the moment of the request. */
export type Choice = { nodes: string[] } | { shares: string[] } | { all: { folder: string } | { trash: true } | { shares: true }; except?: string[] };

export type Request = Choice & {
  kind: Exclude<OperationKind, "subtree">;
  parent?: string;
  conflict?: Conflict;
  trashed_until?: string; // of delete: items that were put into the trash later, or restored, are kept
};

export interface OperationFailure {
  id: string;
  name: string; // empty: there is none of that id any more
  path: string;
  type: "file" | "folder" | "";
  code: string;
  title: string;
}

export const startOperation = (r: Request) => call<Operation>("POST", "/operations", { body: r, once: true });
export const operationOf = (id: string) => call<Operation>("GET", `/operations/${id}`);
export const recentOperations = () => call<Page<Operation>>("GET", "/operations", { query: { limit: 20 } });
export const cancelOperation = (id: string) => call<Operation>("POST", `/operations/${id}/cancel`);
export const retryOperation = (id: string) => call<Operation>("POST", `/operations/${id}/retry`);
export const undoOperation = (id: string) => call<Operation>("POST", `/operations/${id}/undo`, { once: true });
export const failuresPage = (id: string, cursor?: string | null, limit = 100) =>
  call<Page<OperationFailure>>("GET", `/operations/${id}/failures`, { query: { limit, cursor } });
