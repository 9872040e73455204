// How entries of the activity log are told: a sentence and a picture for each type.
import { Connection, Delete, DocumentAdd, Download, EditPen, Key, Link, Message, Rank, RefreshLeft, Setting, Stamp, UploadFilled } from "@element-plus/icons-vue";
import type { Component } from "vue";
import type { Happened } from "@/api/activity";
import { i18n } from "@/i18n";

const t = (key: string, args: Record<string, unknown> = {}) => i18n.global.t(key, args);

/** What the list can be narrowed to, and the types that this is. */
export const kinds = { all: "", files: "node,drive", people: "grant,space", links: "share,collect", documents: "bundle,document", exports: "export", webhooks: "webhook", account: "login,token,identity,password,setting", uploads: "upload", downloads: "download" };
export type Kind = keyof typeof kinds;

/** What was done, as a sentence that begins after the name of whoever did it. */
export function sentenceOf(h: Happened): string {
  const args = { name: h.name || t("activity.whole"), was: h.data.was_name, whom: h.data.to ?? h.data.name, role: h.data.role && t(`places.roles.${h.data.role}`), times: h.data.times };
  if (h.type === "node.moved") {
    const what = h.data.was_folder ? (h.data.was_name ? "movedRenamed" : "moved") : "renamed";
    return t(`activity.did.node.${what}`, args);
  }
  if (h.type.startsWith("grant.") && h.data.kind === "group") return t(`activity.did.${h.type}Group`, args);
  if (h.type === "login.ended" && h.data.all) return t("activity.did.login.endedAll");
  if (h.type === "download.begun" && (h.data.files || h.data.times! > 1)) return t(`activity.did.download.${h.data.files ? "many" : "often"}`, args);
  const key = `activity.did.${h.type}`;
  return i18n.global.te(key) ? t(key, args) : `${h.type} ${h.name}`; // a newer server knows more
}

/** Who did it where no account did: who fails to log in is neither the server nor a visitor. */
export const nobodyOf = (h: Happened) => t(h.type === "login.failed" ? "activity.somebody" : "activity.nobody");

const glyphs: Record<string, Component> = {
  "node.created": DocumentAdd, "node.copied": DocumentAdd, "node.moved": Rank, "node.trashed": Delete, "node.doomed": Delete, "node.deleted": Delete,
  "node.left": Rank, "node.arrived": Rank, drive: Rank, "node.restored": RefreshLeft, node: EditPen, grant: Connection, space: Setting, share: Link, collect: Link, webhook: Message, upload: UploadFilled, download: Download, login: Key, token: Key, identity: Connection, password: Key, setting: Setting,
};

/** The picture beside an entry. */
export const glyphOf = (h: Happened): Component => glyphs[h.type] ?? glyphs[h.type.split(".")[0]!] ?? Stamp;
