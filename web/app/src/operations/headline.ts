// What a card of an operation says.
import { i18n } from "@/i18n";
import type { Shown } from "@/stores/operations";

const t = (key: string, args: Record<string, unknown> = {}, n = 2) => i18n.global.t(key, args, n);

export function headline({ op, name, folder }: Shown): string {
  const figure = (n: number) => n.toLocaleString(i18n.global.locale.value);
  const n = op.done - op.failed;
  const args = { n: figure(op.state === "running" ? op.total : n), name, folder };
  if (op.state === "running") return t(`operation.running.${op.undoes ? "undo" : op.kind}`, args, op.total);
  if (op.state === "cancelled") return t("operation.cancelled", { n: figure(n), total: figure(op.total) });
  if (n === 0 && op.failed > 0) return t("operation.nothing");
  if (op.undoes) return t("operation.done.undo", args, n);
  if (op.kind === "trash" && n === 1 && name) return t("files.trashedOne", args);
  if (op.kind === "move" && folder) return t("files.moved", args);
  if (op.kind === "copy" && folder) return t("files.copied", args);
  return t(`operation.done.${op.kind}`, args, n);
}
