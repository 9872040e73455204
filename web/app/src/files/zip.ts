// Downloads what is no single file: the server puts a zip together, the browser fetches it once it is ready.
import { ElMessage } from "element-plus";
import { cancelExport, createExport, exportOf, exportURL } from "@/api/exports";
import type { Node } from "@/api/types";
import { explain } from "@/components/notify";
import { i18n } from "@/i18n";

const pollEvery = 700; // ms
const t = (key: string, args: Record<string, unknown> = {}) => i18n.global.t(key, args);

export async function downloadZip(nodes: readonly Node[], name: string): Promise<void> {
  let given = true; // up by the one who closed the message
  const shown = ElMessage({ message: t("zip.preparing"), type: "info", duration: 0, showClose: true, onClose: () => (given = false) });
  try {
    let batch = await createExport(nodes.map((n) => n.id), name);
    while (batch.state === "pending" || batch.state === "running") {
      if (!given) return await cancelExport(batch.id);
      await new Promise((resolve) => setTimeout(resolve, pollEvery));
      batch = await exportOf(batch.id);
    }
    if (batch.state !== "sealed") throw new Error(t("zip.failed", { why: batch.error ?? batch.state }));
    const link = document.createElement("a");
    link.href = exportURL(batch.id);
    link.download = `${name}.zip`;
    link.click();
    if (batch.failed > 0) ElMessage({ message: t("zip.missing", { n: batch.failed }), type: "warning", duration: 8000, showClose: true });
  } catch (error) {
    ElMessage({ message: explain(error), type: "error", duration: 6000, showClose: true });
  } finally {
    shown.close();
  }
}
