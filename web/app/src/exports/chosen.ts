// Makes an export of files and folders that were chosen.
import { exportFolder, exportNodes, type Batch, type Wish } from "@/api/batches";
import type { Node } from "@/api/types";
import { attempt, confirm, done } from "@/components/notify";
import { i18n } from "@/i18n";
import { visible } from "@/format";

const { t } = i18n.global;

export const exportChosen = (nodes: readonly Node[], name: string): Promise<boolean> => {
  const folder = nodes.length === 1 && nodes[0]!.type === "folder" ? nodes[0] : undefined;
  const make = () => (folder ? exportFolder({ folder: folder.id, filter: {} }) : exportNodes(nodes.map((n) => n.id), name));
  return attempt(make, t("files.exported"));
};

/** Says of what was made that it becomes several zips, before they are collected. */
export function sayParts(made: Batch): void {
  if (made.parts > 1) done(t("exports.split", { n: made.parts }));
}

/** Exports a folder; where there is an export of the same month, asks whether it shall be another one. */
export async function exportMonth(wish: Wish): Promise<void> {
  let made = await exportFolder(wish);
  if (made.joined && (await confirm(t("exports.joinedTitle", { name: visible(made.name) }), t("exports.joinedText"), t("exports.anew")))) made = await exportFolder({ ...wish, again: true });
  if (!made.joined) sayParts(made);
}
