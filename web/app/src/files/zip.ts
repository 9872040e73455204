// Downloads what is no single file: the server says what the zip will be, and the browser fetches it.
import { ElMessage } from "element-plus/es/components/message/index.mjs";
import { archiveURL, createArchive } from "@/api/exports";
import type { Node } from "@/api/types";
import { fail } from "@/components/notify";
import { explainZip } from "@/components/sentence";
import { i18n } from "@/i18n";

const quiet = 700; // ms before it is said that there is something to wait for
const t = (key: string, args: Record<string, unknown> = {}) => i18n.global.t(key, args);

export async function downloadZip(nodes: readonly Node[], name: string): Promise<void> {
  let close = () => {};
  const waiting = setTimeout(() => (close = ElMessage({ message: t("zip.preparing"), type: "info", duration: 0 }).close), quiet);
  try {
    const folder = nodes.length === 1 && nodes[0]!.type === "folder" ? nodes[0] : undefined;
    const archive = await createArchive(folder ? { folder: folder.id } : { nodes: nodes.map((n) => n.id), name });
    const link = document.createElement("a");
    link.href = archiveURL(archive.id);
    link.download = `${name}.zip`;
    link.click();
    if (archive.failed > 0) ElMessage({ message: t("zip.missing", { n: archive.failed }), type: "warning", duration: 8000, showClose: true });
  } catch (error) {
    fail(new Error(explainZip(error)));
  } finally {
    clearTimeout(waiting);
    close();
  }
}
