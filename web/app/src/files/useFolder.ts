// The folder that is shown: found by its path, its entries read page by page until all are there.
import { computed, onScopeDispose, ref, shallowRef, watch, type Ref } from "vue";
import type { Node } from "@/api/types";
import { onHint } from "@/api/events";
import { childrenPage, nodeAt } from "@/api/nodes";
import { sorted, type Sort } from "./order";

/** Entries that are held at most: beyond it a list is no longer of use, search is. */
const mostEntries = 100_000;

export function useFolder(path: Ref<string>, sort: Ref<Sort>, lang: Ref<string>) {
  const folder = shallowRef<Node>();
  const entries = shallowRef<Node[]>([]);
  const loading = ref(true); // nothing is shown yet
  const more = ref(false); // further pages are on their way
  const cutOff = ref(false);
  const fault = shallowRef<unknown>();
  const items = computed(() => sorted(entries.value, sort.value, lang.value));
  let running: AbortController | undefined;
  let reading = 0;

  /** Reads all pages. A reload changes what is shown only once it has everything. */
  async function load(fresh: boolean): Promise<void> {
    running?.abort();
    const mine = (running = new AbortController());
    if (fresh) {
      loading.value = true;
      entries.value = [];
      folder.value = undefined;
    }
    fault.value = undefined;
    reading++;
    try {
      // The first page of the drive itself needs no id: a round trip less when the page opens.
      const early = path.value === "/" ? childrenPage("root", undefined, mine.signal) : undefined;
      early?.catch(() => {}); // it is told where it is awaited
      const node = await nodeAt(path.value, mine.signal);
      if (mine.signal.aborted) return;
      folder.value = node;
      const all: Node[] = [];
      let cursor: string | null | undefined;
      do {
        const page = await (cursor || !early ? childrenPage(node.id, cursor, mine.signal) : early);
        if (mine.signal.aborted) return;
        all.push(...page.items);
        cursor = page.next_cursor;
        more.value = !!cursor;
        if (fresh || !cursor) entries.value = [...all];
        loading.value = false;
      } while (cursor && all.length < mostEntries);
      cutOff.value = !!cursor;
    } catch (error) {
      if (!mine.signal.aborted) fault.value = error;
    } finally {
      reading--;
      if (running === mine) loading.value = more.value = false;
    }
  }

  let timer: ReturnType<typeof setTimeout> | undefined;
  /** Reads again soon: many changes in a row cost one reading. */
  function soon(): void {
    timer ??= setTimeout(() => {
      timer = undefined;
      void load(false);
    }, 600);
  }

  let heard: ReturnType<typeof setTimeout> | undefined;
  /** Reads again after a hint: a large folder less often, and not while it is being read. */
  function hear(): void {
    heard ??= setTimeout(() => {
      heard = undefined;
      if (timer) return; // it is read soon anyway
      if (reading > 0) hear();
      else void load(false);
    }, 600 + entries.value.length / 2);
  }
  const deaf = onHint((hint) => {
    const concerns = hint === "reset" || hint.many || hint.kinds.includes("access"); // what one may do here, or whether one sees it
    if (concerns || (folder.value && hint.folders.includes(folder.value.id))) hear();
  });

  function put(node: Node): void {
    const at = entries.value.findIndex((n) => n.id === node.id);
    if (node.parent_id !== folder.value?.id && at < 0) return;
    const next = entries.value.filter((n) => n.id !== node.id);
    if (node.parent_id === folder.value?.id && !node.trashed_at) next.push(node);
    entries.value = next;
  }

  function remove(ids: ReadonlySet<string>): void {
    entries.value = entries.value.filter((n) => !ids.has(n.id));
  }

  /** What others changed is seen when one comes back to the page. */
  let left = 0;
  function onVisible(): void {
    if (document.hidden) left = Date.now();
    else if (left && Date.now() - left > 10_000) soon();
  }
  document.addEventListener("visibilitychange", onVisible);

  watch(path, () => void load(true), { immediate: true });
  onScopeDispose(() => {
    running?.abort();
    clearTimeout(timer);
    clearTimeout(heard);
    deaf();
    document.removeEventListener("visibilitychange", onVisible);
  });

  return { folder, items, loading, more, cutOff, fault, reload: () => load(false), retry: () => load(true), soon, put, remove };
}
