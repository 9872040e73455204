// What can be done with entries in a space or shared folder: one request for each, a few at a time.
import { ref } from "vue";
import * as api from "@/api/nodes";
import { isProblem } from "@/api/client";
import type { Node } from "@/api/types";
import { confirm, done, doneWithUndo, explain, fail } from "@/components/notify";
import { i18n } from "@/i18n";
import { usePlaces } from "@/stores/places";
import type { Meant, ShownFolder } from "./useActions";

const t = (key: string, args: Record<string, unknown> = {}, n = 1) => i18n.global.t(key, args, n);
const atOnce = 4; // requests

/** The outcome of one thing done to many entries. */
interface Outcome {
  worked: Node[];
  failed: { node: Node; error: unknown }[];
}

async function each(nodes: readonly Node[], act: (node: Node) => Promise<unknown>): Promise<Outcome> {
  const out: Outcome = { worked: [], failed: [] };
  const queue = [...nodes];
  const work = async () => {
    for (let node = queue.shift(); node; node = queue.shift()) {
      try {
        await act(node);
        out.worked.push(node);
      } catch (error) {
        out.failed.push({ node, error });
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return out;
}

/** Says what failed: the first reason in words, and how many there are. */
function tell(failed: Outcome["failed"]): void {
  if (failed.length === 1) fail(failed[0]!.error);
  else if (failed.length > 1) fail(new Error(t("places.failed", { n: failed.length, why: explain(failed[0]!.error) }, failed.length)));
}

export function usePlaceActions(shown: Pick<ShownFolder, "reload">) {
  const busy = ref(false);
  const places = usePlaces();

  async function guarded(act: () => Promise<void>): Promise<void> {
    busy.value = true;
    try {
      await act();
    } catch (error) {
      fail(error);
    } finally {
      busy.value = false;
      await shown.reload();
      void places.load();
    }
  }

  const toTrash = (meant: Meant) =>
    guarded(async () => {
      const { worked, failed } = await each(meant.nodes, (n) => api.trash(n.id));
      tell(failed);
      if (worked.length === 0) return;
      doneWithUndo(t("operation.done.trash", { n: worked.length }, worked.length), async () => {
        tell((await each(worked, (n) => api.restore(n.id))).failed);
        await shown.reload();
      });
    });

  const restore = (nodes: readonly Node[]) =>
    guarded(async () => {
      const { worked, failed } = await each(nodes, (n) => api.restore(n.id));
      tell(failed);
      if (worked.length) done(t("operation.done.restore", { n: worked.length }, worked.length));
    });

  const destroy = (nodes: readonly Node[]) =>
    guarded(async () => {
      const { worked, failed } = await each(nodes, api.destroy);
      tell(failed);
      if (worked.length) done(t("operation.done.delete", { n: worked.length }, worked.length));
    });

  /** Moves or copies; names that are taken are asked about once for all. */
  const transfer = (how: "move" | "copy", meant: Meant, folder: Node) =>
    guarded(async () => {
      const put = (conflict: api.Conflict) => (n: Node) => (how === "move" ? api.move(n.id, folder.id, conflict) : api.copy(n.id, folder.id, conflict));
      const twin = how === "copy" && meant.nodes.some((n) => n.parent_id === folder.id);
      const first = await each(meant.nodes, put(twin ? "rename" : "fail"));
      const taken = first.failed.filter((f) => isProblem(f.error, "name-taken"));
      const failed = first.failed.filter((f) => !taken.includes(f));
      let n = first.worked.length;
      if (taken.length && (await confirm(t("files.taken"), t("files.takenText", { n: taken.length, name: taken[0]!.node.name }), t("files.keepBoth")))) {
        const second = await each(taken.map((f) => f.node), put("rename"));
        n += second.worked.length;
        failed.push(...second.failed);
      }
      tell(failed);
      if (n) done(t(how === "move" ? "files.moved" : "files.copied", { n, folder: folder.name || places.nameOf(folder.path.slice(2)) || t("nav.files") }));
    });

  return { busy, toTrash, restore, destroy, transfer };
}
