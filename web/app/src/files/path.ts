// Paths of the drive and of the page: /files/A/B shows the folder /A/B.
import type { RouteLocationRaw } from "vue-router";

export const segments = (path: string): string[] => path.split("/").filter(Boolean);
export const joined = (names: readonly string[]): string => "/" + names.join("/");
export const parentPath = (path: string): string => joined(segments(path).slice(0, -1));
export const childPath = (folder: string, name: string): string => joined([...segments(folder), name]);

export function folderRoute(path: string): RouteLocationRaw {
  return { name: "files", params: { path: segments(path) } };
}

/** What cannot be a name; the key of the message that says so. */
export function nameFault(name: string): "empty" | "slash" | "dots" | "long" | undefined {
  const trimmed = name.trim();
  if (!trimmed) return "empty";
  if (/[/\0]/.test(trimmed)) return "slash";
  if (trimmed === "." || trimmed === "..") return "dots";
  if (new TextEncoder().encode(trimmed).length > 255) return "long";
  return undefined;
}
