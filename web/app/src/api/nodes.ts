// The tree: what is in a folder, and what is done with it.
import { apiURL, call, callWithResponse, isProblem, Problem, type Page } from "./client";
import type { Node, Operation, Version } from "./types";
import { childPath } from "@/files/path";

export type Conflict = "fail" | "rename" | "replace";

export const nodeAt = (path: string, signal?: AbortSignal) => call<Node>("GET", "/nodes", { query: { path }, signal });
export const nodeOf = (id: string, signal?: AbortSignal) => call<Node>("GET", `/nodes/${id}`, { signal });

export const childrenPage = (id: string, cursor?: string | null, signal?: AbortSignal) =>
  call<Page<Node>>("GET", `/nodes/${id}/children`, { query: { limit: 1000, cursor }, signal });

/** A page that begins with folders; with the first file there are no more of them. */
export const foldersPage = (id: string, cursor?: string | null) =>
  call<Page<Node>>("GET", `/nodes/${id}/children`, { query: { limit: 200, folders_first: true, cursor } });

export const makeFolder = (parent: string, name: string) =>
  call<Node>("POST", "/nodes", { body: { type: "folder", parent, name }, once: true });

/** Renames; with a revision only what nobody has changed since. */
/** Writes a small file into a folder; another one of that name stays. */
export const putFile = (folder: Pick<Node, "path">, name: string, content: Blob) =>
  call<Node>("PUT", "/files" + childPath(folder.path, name).split("/").map(encodeURIComponent).join("/"), { query: { conflict: "rename" }, raw: content });
export const rename = (node: Pick<Node, "id">, name: string, rev?: number) =>
  call<Node>("PATCH", `/nodes/${node.id}`, { body: { name }, ...(rev ? { headers: { "If-Match": `"${rev}"` } } : {}) });

// One entry at a time: what /operations does is for one's own drive alone.
export const trash = (id: string) => finish("DELETE", `/nodes/${id}`);
/** Deletes for good, unless the item was restored since it was listed. */
export const destroy = (node: Pick<Node, "id" | "trashed_at">) =>
  finish("DELETE", `/nodes/${node.id}`, { query: { permanent: true, trashed_at: node.trashed_at ?? undefined } });
export const restore = (id: string) => call<Node>("POST", `/nodes/${id}/restore`, { body: {} });
/** Moves, and renames with it where there is a name. */
export const move = (id: string, parent: string, conflict: Conflict, name?: string) => call<Node>("PATCH", `/nodes/${id}`, { body: { parent, conflict, name } });
export const copy = (id: string, parent: string, conflict: Conflict) => finish("POST", `/nodes/${id}/copy`, { body: { parent, conflict }, once: true });

export interface Totals {
  files: number;
  folders: number;
  size: number;
  more: boolean;
}
export const totalsOf = (folder: string, signal?: AbortSignal) => call<Totals>("GET", `/nodes/${folder}/totals`, { signal });

export const trashPage = (cursor?: string | null, space?: string) => call<Page<Node>>("GET", "/trash", { query: { limit: 1000, cursor, space } });
export const emptyTrash = (space?: string) => finish("DELETE", "/trash", { query: { space } });
export const star = (id: string, on: boolean) => call(on ? "PUT" : "DELETE", `/nodes/${id}/star`);
export const starredIDs = () => call<{ items: string[] }>("GET", "/starred/ids");
export const shelfPage = (which: "recent" | "starred", cursor?: string | null, signal?: AbortSignal) =>
  call<Page<Node>>("GET", `/${which}`, { query: { limit: 100, cursor }, signal });

export const versions = (id: string) => call<Page<Version>>("GET", `/nodes/${id}/versions`, { query: { limit: 200 } });
export const restoreVersion = (id: string, version: string) =>
  call<Node>("POST", `/nodes/${id}/versions/${version}/restore`, { once: true });

export function contentURL(id: string, how: { inline?: boolean; version?: string } = {}): string {
  return apiURL(`/nodes/${id}/content`, { inline: how.inline ? true : undefined, version: how.version });
}

export const thumbnailURL = (node: Node, size: 256 | 512 | 1280) => apiURL(`/nodes/${node.id}/thumbnail`, { size, rev: node.rev });

/** Calls what may go on as an operation, and waits for its end. */
async function finish(method: string, path: string, c: Parameters<typeof callWithResponse>[2] = {}): Promise<void> {
  const { value, response } = await callWithResponse<Operation | Node | undefined>(method, path, c);
  if (response.status === 202 && value) await operationEnd((value as Operation).id);
}

const pollEvery = 500; // ms

async function operationEnd(id: string): Promise<void> {
  for (;;) {
    const op = await call<Operation>("GET", `/operations/${id}`).catch((error: unknown) => {
      if (isProblem(error, "not-found")) return undefined;
      throw error;
    });
    if (!op || op.state === "done") return;
    if (op.state === "failed") throw new Problem(500, op.error, "", op.error);
    await new Promise((resolve) => setTimeout(resolve, pollEvery));
  }
}
