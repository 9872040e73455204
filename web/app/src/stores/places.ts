import { defineStore } from "pinia";
import { ref, shallowRef } from "vue";
import * as api from "@/api/spaces";
import type { Role, Space } from "@/api/spaces";

const fresh = 60_000; // ms for which the list is as good as a new one, where nothing is known to have changed

/** Where one can be besides one's own drive: spaces, and what others share. */
export const usePlaces = defineStore("places", () => {
  const spaces = shallowRef<Space[]>([]);
  const names = ref(new Map<string, string>()); // of shared folders, by their ids
  let asked = 0;

  /** Reads the spaces. What cannot be read stays as it was: the page of the place itself says why. */
  async function load(always = true): Promise<void> {
    if (!always && Date.now() - asked < fresh) return;
    asked = Date.now();
    try {
      spaces.value = await api.spaces();
    } catch {
      asked = 0;
    }
  }

  const spaceAt = (place: string) => spaces.value.find((s) => s.id === place || s.name.toLowerCase() === place.toLowerCase());
  const nameOf = (place: string) => spaceAt(place)?.name ?? names.value.get(place) ?? "";
  const setName = (place: string, name: string) => void names.value.set(place, name);

  return { spaces, load, spaceAt, nameOf, setName };
});

/** What a role allows; in one's own drive everything. */
export function rightsOf(role: Role | undefined) {
  const change = !role || role === "editor" || role === "manager";
  return { see: role !== "uploader" && role !== "none", create: change || role === "uploader", change, manage: !role || role === "manager" };
}
export type Rights = ReturnType<typeof rightsOf>;
