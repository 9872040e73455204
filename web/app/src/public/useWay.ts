// Where a visitor is in a shared folder. It is part of the address: "Back" leads to the folder before, a reload to the same one.
import { shallowRef, watch } from "vue";
import { useRoute, useRouter } from "vue-router";
import type { Node } from "@/api/types";
import { fail } from "@/components/notify";

const key = "in"; // of the query: the id of a folder

/** The folders from the root to where one is, and how to go to another one. */
export function useWay(root: Node, fetchOne: (id: string) => Promise<Node>) {
  const route = useRoute();
  const router = useRouter();
  const way = shallowRef<Node[]>([root]);
  const known = new Map([[root.id, root]]);
  const to = (id: string) => ({ ...route, name: route.name ?? undefined, query: id === root.id ? {} : { [key]: id } });

  /** The folders from the root to this one: those that are not known are asked for, each for the one above it. */
  async function wayTo(id: string): Promise<Node[]> {
    const found: Node[] = [];
    for (let at: string | null = id; at && at !== root.id; at = found[0]!.parent_id) {
      const node: Node = known.get(at) ?? (await fetchOne(at));
      known.set(at, node);
      found.unshift(node);
    }
    return [root, ...found];
  }

  watch(
    () => route.query[key],
    async (id) => {
      if (typeof id !== "string") return void (way.value = [root]);
      try {
        const found = await wayTo(id);
        if (route.query[key] === id) way.value = found;
      } catch (error) {
        fail(error);
        void router.replace(to(root.id));
      }
    },
    { immediate: true },
  );

  function go(node: Node): void {
    known.set(node.id, node);
    void router.push(to(node.id));
  }

  return { way, go };
}
