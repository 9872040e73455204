import { defineStore } from "pinia";
import { shallowRef } from "vue";
import { parentPath } from "@/files/path";
import { useQueue } from "@/upload/queue";
import { useSession } from "./session";

/** The files on their way into the drive. */
export const useUploads = defineStore("uploads", () => {
  /** The last file that arrived: folders that are shown follow it. */
  const finished = shallowRef<{ id: string; folder: string }>();
  const queue = useQueue(
    { auth: { cookie: true } },
    {
      finished: (item) => (finished.value = { id: item.id, folder: parentPath(item.path) }),
      idle: () => void useSession().refresh().catch(() => {}), // the figures come with the next page
    },
  );
  return { ...queue, finished };
});
