// The file that is looked at is part of the address: "Back" closes it, and the address leads to it.
import { shallowRef, watch } from "vue";
import { useRoute, useRouter } from "vue-router";
import { nodeOf } from "@/api/nodes";
import type { Node } from "@/api/types";
import { fail } from "@/components/notify";

const key = "preview"; // of the query: the id of a node

/** find knows the entries of the page; what it does not know is fetched. */
export function usePreview(find: (id: string) => Node | undefined, fetchOne: (id: string) => Promise<Node> = nodeOf) {
  const route = useRoute();
  const router = useRouter();
  const shown = shallowRef<Node>();
  const without = () => {
    const { [key]: _, ...query } = route.query;
    return { ...route, query, name: route.name ?? undefined };
  };
  const to = (node: Node) => ({ ...without(), query: { ...route.query, [key]: node.id } });

  watch(
    () => route.query[key],
    async (id) => {
      if (typeof id !== "string" || !id) return void (shown.value = undefined);
      if (shown.value?.id === id) return;
      try {
        const node = find(id) ?? (await fetchOne(id));
        if (route.query[key] === id) shown.value = node;
      } catch (error) {
        fail(error);
        void router.replace(without());
      }
    },
    { immediate: true },
  );

  function open(node: Node): void {
    shown.value = node;
    void router.push(to(node));
  }
  function show(node: Node): void {
    shown.value = node;
    void router.replace(to(node));
  }
  /** Goes back where that leads to the page without the file, so that "Forward" shows it again. */
  async function close(): Promise<void> {
    shown.value = undefined;
    const page = router.resolve(without()).fullPath;
    const gone = new Promise<void>((resolve) => {
      const stop = router.afterEach(() => {
        stop();
        resolve();
      });
    });
    if (router.options.history.state["back"] === page) router.back();
    else void router.replace(page);
    await gone;
  }

  return { shown, open, show, close };
}
