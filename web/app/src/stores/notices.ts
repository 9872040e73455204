import { defineStore } from "pinia";
import { ref } from "vue";
import { notices } from "@/api/notices";

/** How many notices one has not read. */
export const useNotices = defineStore("notices", () => {
  const unread = ref(0);

  /** Counts again. What cannot be counted stays as it was. */
  async function count(): Promise<void> {
    try {
      unread.value = (await notices(undefined, 1)).unread;
    } catch {
      // the next hint asks again
    }
  }
  return { unread, count };
});
