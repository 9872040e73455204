// Spaces, groups, roles at folders and files, and whom to give them to.
import { call, listAll, type Page } from "./client";

export type Role = "none" | "viewer" | "uploader" | "editor" | "manager";
export const roles: readonly Role[] = ["viewer", "uploader", "editor", "manager", "none"];

export interface Space {
  id: string;
  root_id: string;
  name: string;
  state: "active" | "archived" | "deleted";
  role: Role;
  usage: { used: number; total: number | null };
  created_at: string;
  updated_at: string;
}

export interface Person {
  kind: "user" | "group";
  id: string;
  name: string;
}

/** A role of somebody at a node. */
export interface Grant {
  node_id: string;
  kind: "user" | "group";
  principal_id: string;
  name: string;
  role: Role;
  note: string;
  created_at: string;
  expires_at: string | null;
}

export interface Access {
  role: Role;
  owner: string; // empty: it is in a space
  grants: { grant: Grant; level: number }[];
}

export const spaces = () => call<Page<Space>>("GET", "/spaces").then((page) => page.items);
export const spaceOf = (id: string) => call<Space>("GET", `/spaces/${id}`);
export const changeSpace = (id: string, c: { name?: string; state?: "archived" }) => call<Space>("PATCH", `/spaces/${id}`, { body: c });

export const people = (q: string, signal?: AbortSignal) => call<Page<Person>>("GET", "/people", { query: { q }, signal }).then((page) => page.items);

export interface NewGrant {
  kind: "user" | "group";
  principal: string;
  role: Role;
  note?: string;
  expires_in?: number | null; // seconds; null: for ever
}
export const accessOf = (node: string) => call<Access>("GET", `/nodes/${node}/access`);
export const grantsAt = (node: string) => listAll<Grant>(`/nodes/${node}/grants`);
export const give = (node: string, g: NewGrant) => call<Grant>("POST", `/nodes/${node}/grants`, { body: g, once: true });
export const take = (node: string, principal: string) => call("DELETE", `/nodes/${node}/grants/${principal}`);
