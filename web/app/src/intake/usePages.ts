// A list that is read page by page, and anew when what it is narrowed to changes.
import { onScopeDispose, ref, shallowRef } from "vue";
import type { Page } from "@/api/client";

export function usePages<T>(read: (cursor: string | null, signal: AbortSignal) => Promise<Page<T>>) {
  const items = shallowRef<T[]>([]);
  const next = ref<string | null>(null);
  const loading = ref(true);
  const fault = shallowRef<unknown>();
  let running: AbortController | undefined;

  async function load(fresh: boolean): Promise<void> {
    running?.abort();
    const mine = (running = new AbortController());
    loading.value = true;
    fault.value = undefined;
    try {
      const page = await read(fresh ? null : next.value, mine.signal);
      if (mine.signal.aborted) return;
      items.value = fresh ? page.items : [...items.value, ...page.items];
      next.value = page.next_cursor ?? null;
    } catch (error) {
      if (!mine.signal.aborted) fault.value = error;
    } finally {
      if (running === mine) loading.value = false;
    }
  }
  onScopeDispose(() => running?.abort());
  return { items, next, loading, fault, reload: () => load(true), more: () => load(false) };
}
