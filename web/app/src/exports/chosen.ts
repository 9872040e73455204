// Makes an export of files and folders that were chosen.
import { exportFolder, exportNodes } from "@/api/batches";
import type { Node } from "@/api/types";
import { attempt } from "@/components/notify";
import { i18n } from "@/i18n";

export const exportChosen = (nodes: readonly Node[], name: string): Promise<boolean> => {
  const folder = nodes.length === 1 && nodes[0]!.type === "folder" ? nodes[0] : undefined;
  const make = () => (folder ? exportFolder({ folder: folder.id, filter: {} }) : exportNodes(nodes.map((n) => n.id), name));
  return attempt(make, i18n.global.t("files.exported"));
};
