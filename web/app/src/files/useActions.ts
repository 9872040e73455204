// What can be done with entries: each says what went wrong, and what was done can be undone where the server can.
import { ref } from "vue";
import * as api from "@/api/nodes";
import { isProblem } from "@/api/client";
import type { Node } from "@/api/types";
import { attempt, confirm, done, doneWithUndo, fail } from "@/components/notify";
import { i18n } from "@/i18n";
import { useSession } from "@/stores/session";

const t = (key: string, args: Record<string, unknown> = {}) => i18n.global.t(key, args);
const atOnce = 6;

/** Acts on each, a few at a time. Returns those that worked, and the first error. */
async function each<T>(items: readonly T[], act: (item: T) => Promise<unknown>): Promise<{ worked: T[]; error: unknown }> {
  const worked: T[] = [];
  let error: unknown;
  const queue = [...items];
  const work = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
      try {
        await act(item);
        worked.push(item);
      } catch (e) {
        error ??= e;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, work));
  return { worked, error };
}

export interface ShownFolder {
  put: (node: Node) => void;
  remove: (ids: ReadonlySet<string>) => void;
  reload: () => Promise<void>;
}

export function useActions(shown: ShownFolder) {
  const busy = ref(false);
  const session = useSession();

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

  const idsOf = (nodes: readonly Node[]) => new Set(nodes.map((n) => n.id));

  const toTrash = (nodes: readonly Node[]) =>
    guarded(async () => {
      const { worked, error } = await each(nodes, (n) => api.trash(n.id));
      shown.remove(idsOf(worked));
      if (error) fail(error);
      if (worked.length === 0) return;
      const text = worked.length === 1 ? t("files.trashedOne", { name: worked[0]!.name }) : t("files.trashed", { n: worked.length });
      doneWithUndo(text, async () => {
        const back = await each(worked, (n) => api.restore(n.id));
        await shown.reload();
        if (back.error) throw back.error;
      });
    });

  /** Moves or copies; names that are taken are asked about once for all. */
  const transfer = (how: "move" | "copy", nodes: readonly Node[], folder: Node) =>
    guarded(async () => {
      const act = how === "move" ? api.move : api.copy;
      const taken: Node[] = [];
      const first = await each(nodes, async (n) => {
        if (how === "copy" && n.parent_id === folder.id) return act(n.id, folder.id, "rename");
        try {
          await act(n.id, folder.id);
        } catch (error) {
          if (!isProblem(error, "name-taken")) throw error;
          taken.push(n);
        }
      });
      let count = first.worked.length - taken.length;
      if (taken.length > 0 && (await confirm(t("files.taken"), t("files.takenText", { n: taken.length, name: taken[0]!.name }), t("files.keepBoth")))) {
        count += (await each(taken, (n) => act(n.id, folder.id, "rename"))).worked.length;
      }
      await shown.reload();
      if (how === "copy") void session.refresh();
      if (first.error) fail(first.error);
      else if (count > 0) done(t(how === "move" ? "files.moved" : "files.copied", { n: count, folder: folder.name || t("nav.files") }));
    });

  const rename = (node: Node, name: string) =>
    attempt(async () => {
      shown.put({ ...node, name }); // at once; what the server says comes after it
      try {
        shown.put(await api.rename(node, name));
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
