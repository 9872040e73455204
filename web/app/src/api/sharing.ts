// Share links and collect links, as their owner and as their visitors see them.
import { apiURL, call, listAll, Problem, type Page } from "./client";
import type { Collect, Collected, Node, Share } from "./types";

export interface ShareTerms {
  code?: "auto" | string | null;
  expires_in?: number | null; // seconds; null: never
  max_downloads?: number | null;
}

export const createShare = (node: string, terms: ShareTerms) =>
  call<Share>("POST", "/shares", { body: { node, ...terms }, once: true });
export const shares = (node?: string) => listAll<Share>("/shares", { node });
export const changeShare = (id: string, terms: ShareTerms) => call<Share>("PATCH", `/shares/${id}`, { body: terms });
export const deleteShare = (id: string) => call("DELETE", `/shares/${id}`);

export interface CollectTerms {
  folder?: string;
  title?: string;
  message?: string;
  expires_in?: number | null;
  max_bytes?: number | null;
  max_file?: number | null;
}

export const createCollect = (terms: CollectTerms) => call<Collect>("POST", "/collects", { body: terms, once: true });
export const collects = () => listAll<Collect>("/collects");
export const changeCollect = (id: string, terms: CollectTerms) => call<Collect>("PATCH", `/collects/${id}`, { body: terms });
export const collected = (id: string) => listAll<Collected>(`/collects/${id}/files`, {}, 1000);
export const deleteCollect = (id: string) => call("DELETE", `/collects/${id}`);

/** The address that is given to others: the page's own, whatever name the server thinks it has. */
export const sharePage = (token: string) => new URL(`s/${token}`, document.baseURI).href;
export const collectPage = (token: string) => new URL(`c/${token}`, document.baseURI).href;

export interface PublicShare {
  needs_code: boolean;
  name?: string;
  type?: "file" | "folder";
  size?: number;
  owner?: string;
  expires_at: string | null;
}

const asVisitor = (access: string) => ({ Authorization: `Share ${access}` });

export const lookAtShare = (token: string, access?: string) =>
  call<PublicShare>("GET", `/public/shares/${token}`, { headers: access ? asVisitor(access) : {} });
export const openShare = (token: string, code?: string) =>
  call<{ access: string; expires_at: string }>("POST", `/public/shares/${token}/open`, { body: code ? { code } : {} });
export const sharedNode = (token: string, access: string, id: string) =>
  call<Node>("GET", `/public/shares/${token}/nodes/${id}`, { headers: asVisitor(access) });
export const sharedChildren = (token: string, access: string, id: string, cursor?: string | null) =>
  call<Page<Node>>("GET", `/public/shares/${token}/nodes/${id}/children`, {
    query: { limit: 1000, folders_first: true, cursor },
    headers: asVisitor(access),
  });
export const sharedContentURL = (token: string, access: string, id: string, inline = false) =>
  apiURL(`/public/shares/${token}/nodes/${id}/content`, { access, inline: inline || undefined });
export const sharedThumbnailURL = (token: string, access: string, node: Node) =>
  apiURL(`/public/shares/${token}/nodes/${node.id}/thumbnail`, { access, size: 256 });
/** A zip of a folder, or of some of what is in it. */
export const sharedZipURL = (token: string, access: string, folder: string, nodes: readonly string[] = []) =>
  apiURL(`/public/shares/${token}/nodes/${folder}/zip`, { access, nodes: nodes.join(",") });
/** Finds out whether a download would come: where it does not, a browser tells nobody why. Throws a Problem. */
export async function wouldDownload(url: string): Promise<void> {
  const response = await fetch(url, { method: "HEAD", cache: "no-store" }).catch(() => undefined);
  if (!response) throw new Problem(0, "network", "", "");
  if (!response.ok) throw new Problem(response.status, `http-${response.status}`, "", "");
}
/** The same for what a visitor of a share would download, who may have no more of it than its limit allows. */
export async function wouldVisit(token: string, access: string, url: string): Promise<void> {
  await lookAtShare(token, access); // HEAD is no download: it does not know of the limit
  await wouldDownload(url);
}

export interface PublicCollect {
  title: string;
  message: string;
  owner: string;
  expires_at: string | null;
  max_file: number | null;
  left: number | null;
}

export const lookAtCollect = (token: string) => call<PublicCollect>("GET", `/public/collects/${token}`);
export const openCollect = (token: string, sender?: string) =>
  call<{ token: string; expires_at: string }>("POST", `/public/collects/${token}/open`, { body: sender ? { sender } : {} });
