// What can be done with entries: each says what went wrong, and what was done can be undone where the server can.
import { onScopeDispose, ref, watch } from "vue";
import * as api from "@/api/nodes";
import { failuresPage, type Choice, type OperationFailure } from "@/api/operations";
import type { Node } from "@/api/types";
import { attempt, confirm, doneWithUndo, fail } from "@/components/notify";
import { i18n } from "@/i18n";
import { useOperations } from "@/stores/operations";

const t = (key: string, args: Record<string, unknown> = {}) => i18n.global.t(key, args);
/** Entries that are meant: these, or all that is in a folder but for some. */
export interface Meant {
  nodes: readonly Node[];
  all?: string | undefined; // the id of the folder
  except?: readonly string[];
}

export function choiceOf(meant: Meant): Choice {
  if (!meant.all) return { nodes: meant.nodes.map((n) => n.id) };
  const except = [...(meant.except ?? [])];
  return { all: { folder: meant.all }, ...(except.length ? { except } : {}) };
}

/** The failures of an operation whose names were taken. */
async function takenOf(id: string): Promise<OperationFailure[]> {
  const taken: OperationFailure[] = [];
  let cursor: string | null | undefined;
  do {
    const page = await failuresPage(id, cursor, 1000);
    taken.push(...page.items.filter((f) => f.code === "name-taken"));
    cursor = page.next_cursor;
  } while (cursor);
  return taken;
}

export interface ShownFolder {
  put: (node: Node) => void;
  reload: () => Promise<void>;
}

export function useActions(shown: ShownFolder) {
  const busy = ref(false);
  const operations = useOperations();
  const stop = watch(() => operations.ended, () => void shown.reload());
  onScopeDispose(stop);

  async function guarded(act: () => Promise<void>): Promise<void> {
    busy.value = true;
    try {
      await act();
    } catch (error) {
      fail(error);
    } finally {
      busy.value = false;
    }
  }

  const names = (meant: Meant) => ({ name: !meant.all && meant.nodes.length === 1 ? meant.nodes[0]!.name : "" });

  const toTrash = (meant: Meant) =>
    guarded(async () => {
      await operations.start({ kind: "trash", ...choiceOf(meant) }, names(meant));
    });

  /** Moves or copies; names that are taken are asked about once for all. */
  const transfer = (how: "move" | "copy", meant: Meant, folder: Node) =>
    guarded(async () => {
      const about = { folder: folder.name || t("nav.files") };
      const twin = how === "copy" && (meant.all === folder.id || meant.nodes.some((n) => n.parent_id === folder.id));
      const op = await operations.start({ kind: how, ...choiceOf(meant), parent: folder.id, ...(twin ? { conflict: "rename" as const } : {}) }, about);
      if (op.failed === 0 || op.state === "running") return;
      const taken = await takenOf(op.id);
      if (taken.length === 0) return;
      const text = t("files.takenText", { n: taken.length, name: taken[0]!.name });
      if (!(await confirm(t("files.taken"), text, t("files.keepBoth")))) return;
      if (taken.length === op.failed) operations.hide(op.id);
      await operations.start({ kind: how, nodes: taken.map((f) => f.id), parent: folder.id, conflict: "rename" }, about);
    });

  const rename = (node: Node, name: string) =>
    attempt(async () => {
      shown.put({ ...node, name }); // at once; what the server says comes after it
      try {
        const now = await api.rename(node, name);
        shown.put(now);
        if (now.name === name) doneWithUndo(t("files.renamed", { name }), async () => shown.put(await api.rename(now, node.name, now.rev)));
      } catch (error) {
        shown.put(node);
        throw error;
      }
    });

  const makeFolder = async (parent: string, name: string): Promise<Node | undefined> => {
    try {
      const node = await api.makeFolder(parent, name);
      shown.put(node);
      return node;
    } catch (error) {
      fail(error);
      return undefined;
    }
  };

  return { busy, toTrash, transfer, rename, makeFolder };
}

/** Saves files: each as a download of its own, a little apart, because browsers drop downloads that come at once. */
export async function download(nodes: readonly Node[], url: (n: Node) => string): Promise<void> {
  for (const node of nodes) {
    const link = document.createElement("a");
    link.href = url(node);
    link.download = node.name;
    document.body.append(link);
    link.click();
    link.remove();
    if (nodes.length > 1) await new Promise((resolve) => setTimeout(resolve, 400));
  }
}
