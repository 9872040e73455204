// What happened in a drive, a space or at a node, and the webhooks that are told of it.
import { call, type Page } from "./client";
import { move, rename, restore, restoreVersion } from "./nodes";
import type { Role } from "./spaces";

/** What an entry says besides, each where it has a meaning. */
export interface Details {
  times?: number; // attempts to log in, or downloads, that were gathered,
  from?: string[] | null; // and some of the addresses that they came from
  files?: "many"; // downloads of more files than are told one by one
  all?: boolean; // not one login: all but the one that asked
  type?: "file" | "folder";
  was_name?: string;
  was_folder?: string;
  was_version?: string;
  name?: string; // of whom a role was given
  to?: string; // of whom all files go to
  kind?: "user" | "group";
  role?: Role;
  state?: string;
  reason?: string;
}

export interface Happened {
  id: string;
  at: string;
  type: string;
  by: { id: string; name: string } | null; // null: the program, or somebody without an account
  head?: string;
  address?: string;
  node_id: string | null;
  name: string;
  path: string; // empty: it is not there
  data: Details;
  restore?: "trash" | "version" | "move";
}

/** Where things happened: at a file or folder, in a space, or in one's own drive. */
export interface Scene {
  node?: string | undefined;
  space?: string | undefined;
}

export const happened = (at: Scene, types: string, cursor?: string | null) =>
  call<Page<Happened>>("GET", "/activity", { query: { ...at, type: types, limit: 50, cursor } });

/** Undoes what happened, where the entry says that it can be. */
export async function takeBack(h: Happened): Promise<void> {
  const id = h.node_id!;
  if (h.restore === "trash") await restore(id);
  else if (h.restore === "version") await restoreVersion(id, h.data.was_version!);
  else if (h.data.was_folder) await move(id, h.data.was_folder, "fail", h.data.was_name);
  else await rename({ id }, h.data.was_name!);
}

export interface Webhook {
  id: string;
  name: string;
  url: string;
  types: string[]; // none: all but uploads, downloads and what is about accounts
  state: "active" | "disabled";
  reason?: "failing" | "right" | "secret" | "gone";
  skipped: number;
  failures: number;
  status: number; // 0: there was no answer
  error?: "status" | "timeout" | "unreachable" | "address";
  sent_at: string | null;
  next_at: string | null;
  old_secret_until: string | null; // requests are signed with the secret before, too, until then
  secret?: string; // in the answer to its making, or to a rotation
}

export interface WebhookTerms {
  url?: string;
  name?: string;
  types?: string[];
  state?: Webhook["state"];
}

export const webhooks = (space?: string) => call<Page<Webhook>>("GET", "/webhooks", { query: { space } }).then((page) => page.items);
export const createWebhook = (terms: WebhookTerms, space?: string) => call<Webhook>("POST", "/webhooks", { body: { ...terms, space }, once: true });
export const changeWebhook = (id: string, terms: WebhookTerms) => call<Webhook>("PATCH", `/webhooks/${id}`, { body: terms });
export const rotateWebhook = (id: string) => call<Webhook>("POST", `/webhooks/${id}/secret`, { body: {}, once: true });
export const deleteWebhook = (id: string) => call("DELETE", `/webhooks/${id}`);
export const replayWebhook = (id: string, since: Date) => call("POST", `/webhooks/${id}/replay`, { body: { since: since.toISOString() } });
