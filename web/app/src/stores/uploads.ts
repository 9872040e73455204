import { defineStore } from "pinia";
import { shallowRef, watch } from "vue";
import { calledFor } from "@/api/client";
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

/** Waits until the user, whom the server does not know any more, has logged in again. */
async function loggedInAgain(): Promise<boolean> {
  const session = useSession();
  await session.refresh().catch(() => {}); // it has the login page come, unless that has been done in another tab
  if (!session.loggedIn) {
    await new Promise<void>((resolve) => {
      const stop = watch(() => session.loggedIn, (is) => is && (stop(), resolve()));
    });
  }
  return true;
}

/** The files on their way into the drive. */
export const useUploads = defineStore("uploads", () => {
  /** The last file that arrived: folders that are shown follow it. */
  const finished = shallowRef<{ id: string; folder: string }>();
  const queue = useQueue(
    { auth: { cookie: true, user: calledFor }, onLogin: loggedInAgain },
    {
      left: () => useSession().isLeft(),
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
