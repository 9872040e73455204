import { defineStore } from "pinia";
import { shallowRef } from "vue";
import { parentPath, placeOf } from "@/files/path";
import { useQueue } from "@/upload/queue";
import { usePlaces } from "./places";
import { useSession } from "./session";

const key = "smartdrive.sent-to"; // places that this browser has sent something to: there may be something unfinished in them
const mostPlaces = 20;

function sentTo(): string[] {
  try {
    return (JSON.parse(localStorage.getItem(key) ?? "[]") as unknown[]).filter((p): p is string => typeof p === "string");
  } catch {
    return [];
  }
}

function remember(folder: string): void {
  const place = placeOf(folder);
  if (!place) return;
  try {
    localStorage.setItem(key, JSON.stringify([place, ...sentTo().filter((p) => p !== place)].slice(0, mostPlaces)));
  } catch {
    // A browser that keeps nothing: the page of the space lists them.
  }
}

/** The files on their way into the drive. */
export const useUploads = defineStore("uploads", () => {
  /** The last file that arrived: folders that are shown follow it. */
  const finished = shallowRef<{ id: string; folder: string }>();
  const queue = useQueue(
    { auth: { cookie: true } },
    {
      finished: (item) => (finished.value = { id: item.id, folder: parentPath(item.path) }),
      idle: () => {
        void useSession().refresh().catch(() => {}); // the figures come with the next page
        if (sentTo().length) void usePlaces().load();
      },
    },
  );
  const addDrop = (what: DataTransfer, folder: string) => (remember(folder), queue.addDrop(what, folder));
  const pick = (folder: string, whole: boolean) => (remember(folder), queue.pick(folder, whole));
  return { ...queue, finished, addDrop, pick, restore: () => queue.restore(sentTo()) };
});
