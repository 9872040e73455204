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
  links: "editors" | "managers" | "nobody"; // who may give out links
  outward: "managers" | "nobody"; // who may give roles to others than members
  trash_days: number; // 0: as long as the server keeps it
  version_days: number;
}

/** What the managers of a space decide. */
export type SpaceRules = Pick<Space, "links" | "outward" | "trash_days" | "version_days">;

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
  grants: { grant: Grant; level: number; idle: boolean }[]; // idle: it gives nothing for now, for the space shares nothing with others than its members
}

export const spaces = () => call<Page<Space>>("GET", "/spaces").then((page) => page.items);
export const spaceOf = (id: string) => call<Space>("GET", `/spaces/${id}`);
export const changeSpace = (id: string, c: { name?: string; state?: "archived" } & Partial<SpaceRules>) => call<Space>("PATCH", `/spaces/${id}`, { body: c });

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

/** A role at a folder or file, and what that is. */
export interface Shared {
  grant: Grant;
  path: string;
  node: { id: string; name: string; type: "file" | "folder"; size: number }; // no name: it is in the trash, or gone
  owner: string; // of what is shared with the user: the user whose drive it is in; empty: a space's
  space: string;
  alias: string; // what the user calls it
  hidden: boolean;
}

export const sharedWithMe = (hidden: boolean, cursor?: string | null) =>
  call<Page<Shared>>("GET", "/shared-with-me", { query: { limit: 100, hidden: hidden || undefined, cursor } });
export const sharedByMe = (cursor?: string | null) => call<Page<Shared>>("GET", "/shared-by-me", { query: { limit: 100, cursor } });
export const changeMount = (node: string, c: { name?: string; hidden?: boolean }) => call("PATCH", `/shared-with-me/${node}`, { body: c });

// What administrators do.
export interface Group {
  id: string;
  name: string;
  created_at: string;
}
export const allSpaces = () => listAll<Space>("/admin/spaces", { limit: 500 });
export const deletedSpaces = () => call<Page<Space & { deleted_at: string }>>("GET", "/admin/spaces", { query: { deleted: true, limit: 500 } }).then((page) => page.items);
export const createSpace = (s: { name: string; total?: number | null; manager?: string }) => call<Space>("POST", "/admin/spaces", { body: s, once: true });
export const setSpace = (id: string, s: { name?: string; total?: number | null; state?: "active" | "archived" }) => call<Space>("PATCH", `/admin/spaces/${id}`, { body: s });
export const deleteSpace = (id: string) => call("DELETE", `/admin/spaces/${id}`);

export const groups = () => listAll<Group>("/admin/groups", { limit: 1000 }, 10_000);
export const createGroup = (name: string) => call<Group>("POST", "/admin/groups", { body: { name }, once: true });
export const renameGroup = (id: string, name: string) => call<Group>("PATCH", `/admin/groups/${id}`, { body: { name } });
export const deleteGroup = (id: string) => call("DELETE", `/admin/groups/${id}`);
export const membersPage = (id: string, cursor?: string | null) => call<Page<{ id: string; name: string }>>("GET", `/admin/groups/${id}/members`, { query: { limit: 200, cursor } });
export const addMember = (id: string, user: string) => call("PUT", `/admin/groups/${id}/members/${user}`);
export const removeMember = (id: string, user: string) => call("DELETE", `/admin/groups/${id}/members/${user}`);
