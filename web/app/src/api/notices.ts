// What one is told, and how.
import { call, type Page } from "./client";
import type { Role } from "./spaces";

export type Kind = "share" | "role" | "space" | "group" | "export" | "collect" | "quota" | "webhook" | "operation";
export type Channel = "off" | "page" | "mail"; // mail is on the page, too

export interface Notice {
  id: string;
  at: string;
  read_at: string | null;
  kind: Kind;
  what: string;
  gone: boolean; // one may not see any more what it was about
  by?: string;
  node_id?: string;
  name?: string;
  path?: string;
  space?: string;
  role?: Role;
  expires_at?: string;
  failed?: number;
}

export interface NoticeSettings {
  mail_possible: boolean;
  address: string;
  state: "none" | "asked" | "confirmed" | "refused";
  language: string;
  channels: Record<Kind, Channel>;
}

type Notices = Page<Notice> & { unread: number };
export const notices = (cursor?: string | null, limit = 50) => call<Notices>("GET", "/notices", { query: { limit, cursor } });
export const markRead = (what: { ids?: string[]; up_to?: string }) => call<{ unread: number }>("POST", "/notices/read", { body: what }).then((left) => left.unread);
export const noticeSettings = () => call<NoticeSettings>("GET", "/notices/settings");
export const changeNoticeSettings = (change: { address?: string; language?: string; channels?: Partial<Record<Kind, Channel>> }) =>
  call<NoticeSettings>("PATCH", "/notices/settings", { body: change });
export const confirmAddress = (code: string) => call<NoticeSettings>("POST", "/notices/settings/confirm", { body: { code } });
