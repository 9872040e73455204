// The user: login, preferences, password, tokens; and search.
import { call, listAll, type Page, type Query } from "./client";
import type { Me, Node, OpenUpload, Preferences, Session, Token } from "./types";

export const logIn = (name: string, password: string) => call<{ user: { id: string } }>("POST", "/sessions", { body: { name, password, cookie: true } });
/** The identity provider that people may log in by; see stores/signOn.ts. */
export const signOnProvider = () => call<{ provider: { name: string } | null }>("GET", "/sign-on");
export const beginSignOn = () => call<{ url: string; flow: string }>("POST", "/sign-on");
export interface SignOnReturn {
  code: string;
  state: string;
  iss?: string;
  flow: string;
}
export const finishSignOn = (back: SignOnReturn) => call<{ user: { id: string } }>("POST", "/sign-on/finish", { body: { ...back, cookie: true } });
export const beginConnect = (password: string) => call<{ url: string; flow: string }>("POST", "/me/sign-on", { body: { password } });
export const connectSignOn = (back: SignOnReturn) => call("PUT", "/me/sign-on", { body: back });
export const endSignOn = (password: string) => call("POST", "/me/sign-on/end", { body: { password } });
export const signOnConnected = () => call<{ connected: boolean }>("GET", "/me/sign-on");

export const logOut = () => call("DELETE", "/sessions/current");
export const me = () => call<Me>("GET", "/me");
export const preferences = () => call<Preferences>("GET", "/me/preferences");
export const savePreferences = (p: Preferences) => call("PUT", "/me/preferences", { body: p });
export const changePassword = (current: string, password: string) =>
  call("PUT", "/me/password", { body: { current, password } });

export const sessions = () => listAll<Session>("/sessions");
export const endSession = (id: string) => call("DELETE", `/sessions/${id}`);
export const tokens = () => listAll<Token>("/tokens");
export const createToken = (name: string, scopes: string[], expires_in?: number, heads?: string[]) =>
  call<{ id: string; token: string }>("POST", "/tokens", { body: { name, scopes, expires_in, heads } });
export const deleteToken = (id: string) => call("DELETE", `/tokens/${id}`);

export const openUploads = () => listAll<OpenUpload>("/uploads");
export const openUpload = (id: string) => call<OpenUpload>("GET", `/uploads/${id}`);
export const cancelUpload = (id: string) => call("DELETE", `/uploads/${id}`);

export const search = (query: Query, cursor?: string | null, signal?: AbortSignal) =>
  call<Page<Node>>("GET", "/search", { query: { limit: 200, ...query, cursor }, signal });

/** A program that asks for an app password: see GrantPage.vue. */
export const flow = (page: string) => call<{ agent: string; expires_at: string }>("GET", `/flows/${encodeURIComponent(page)}`);
export const grantFlow = (page: string, name?: string) => call("POST", `/flows/${encodeURIComponent(page)}`, { body: { name } });
