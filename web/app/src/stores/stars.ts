import { defineStore } from "pinia";
import { shallowRef, watch } from "vue";
import { whenQuiet } from "@/api/client";
import { star, starredIDs } from "@/api/nodes";
import { fail } from "@/components/notify";
import type { Node } from "@/api/types";
import { useSession } from "./session";

/** What the user has starred: the ids are asked for once, when a page that shows stars has what it needs first. */
export const useStars = defineStore("stars", () => {
  const ids = shallowRef<ReadonlySet<string>>(new Set());
  let asked = false;
  const meanwhile = new Map<string, boolean>(); // what has changed while the ids were on their way
  const session = useSession();
  watch(() => session.me?.user.id, () => {
    asked = false;
    ids.value = new Set();
  });

  function fetch(): void {
    if (asked) return;
    asked = true;
    meanwhile.clear();
    const whose = session.me?.user.id;
    whenQuiet()
      .then(starredIDs)
      .then(
        (found) => {
          if (session.me?.user.id !== whose) return;
          ids.value = new Set(found.items);
          for (const [id, on] of meanwhile) set(id, on);
        },
        () => (asked = false), // a convenience: the next page asks again
      );
  }

  /** Stars them all, or takes all stars away where all have one. Shown at once; what is refused goes back. */
  async function toggle(nodes: readonly Node[]): Promise<void> {
    const on = !nodes.every((n) => ids.value.has(n.id));
    for (const { id } of nodes) {
      if (ids.value.has(id) === on) continue;
      set(id, on);
      try {
        await star(id, on);
      } catch (error) {
        set(id, !on);
        fail(error);
        return;
      }
    }
  }

  function set(id: string, on: boolean): void {
    const next = new Set(ids.value);
    if (on) next.add(id);
    else next.delete(id);
    ids.value = next;
    meanwhile.set(id, on);
  }

  /** Of what a list of stars has shown it is known. */
  function know(nodes: readonly Node[]): void {
    ids.value = new Set([...ids.value, ...nodes.map((n) => n.id)]);
  }

  const has = (id: string) => ids.value.has(id);
  return { ids, fetch, toggle, know, has };
});
