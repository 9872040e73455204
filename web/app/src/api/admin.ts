// What only administrators may.
import { call, listAll } from "./client";
import type { Finding, GrowthDay, Ledger, Letter, OwnedUpload, Status, Timer, User } from "./types";

export const users = () => listAll<User>("/admin/users");
export const createUser = (u: { name: string; password: string; admin: boolean; total?: number | null; must_change_password?: boolean }) =>
  call<User>("POST", "/admin/users", { body: u, once: true });
export const changeUser = (id: string, u: { password?: string; state?: "active" | "disabled"; total?: number | null; admin?: boolean; must_change_password?: boolean }) =>
  call<User>("PATCH", `/admin/users/${id}`, { body: u });
export const deleteUser = (id: string) => call("DELETE", `/admin/users/${id}`);
/** How far the files of a user who leaves have been given to somebody else. */
export interface Handover {
  id: string;
  state: "running" | "done" | "failed";
  done: number;
  total: number;
  waits_for: string; // empty: it does not wait
  to: string;
  to_space: boolean;
  folder_id: string;
}
export const handOver = (id: string, to: { to_user?: string; to_space?: string; folder: string }) => call<Handover>("POST", `/admin/users/${id}/handover`, { body: to, once: true });
export const handoverOf = (id: string) => call<Handover>("GET", `/admin/users/${id}/handover`);
export const ledger = (id: string) => call<Ledger>("GET", `/admin/users/${id}/ledger`);

export const allUploads = () => listAll<OwnedUpload>("/admin/uploads");
export const resetUploads = (account_id: string | null) => call<{ reset: number }>("POST", "/admin/uploads/reset", { body: { account_id } });

export const status = () => call<Status>("GET", "/admin/status");
/** How the server that sends mail is doing. */
export interface MailReport {
  state: "none" | "ok" | "reach" | "secure" | "login" | "sender";
  server?: string;
  from?: string;
  encrypted: boolean;
  says?: string;
}
export const mail = () => call<MailReport>("GET", "/admin/mail");
export const growth = () => call<{ days: GrowthDay[] }>("GET", "/admin/growth?days=365");
/** A setting that may be changed while the server runs. */
export interface Setting {
  name: string;
  value: string; // empty: not set
  default: string;
  fixed: boolean; // the server was started with it
  changed_at: string | null;
  changed_by: string | null;
}
export const settings = async () => (await call<{ items: Setting[] }>("GET", "/admin/settings")).items;
export const setSetting = (name: string, value: string) => call<Setting>("PUT", `/admin/settings/${name}`, { body: { value } });
export const resetSetting = (name: string) => call<Setting>("DELETE", `/admin/settings/${name}`);
export const findings = () => listAll<Finding>("/admin/findings", {}, 1000);
export const letters = () => listAll<Letter>("/admin/dead-letters", {}, 1000);
export const replayLetters = (ids: string[]) => call<{ replayed: number }>("POST", "/admin/dead-letters/replay", { body: { ids } });
export const forgetLetter = (id: string) => call("DELETE", `/admin/dead-letters/${id}`);
export const timer = (key: string) => call<Timer>("GET", `/admin/timers/${key.split("/").map(encodeURIComponent).join("/")}`);
