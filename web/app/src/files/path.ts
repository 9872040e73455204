// Paths of the drive and of the page: /files/A/B shows the folder /A/B, and /spaces/Design/A shows //Design/A. What stands after // is
// a place: the name of a space, or the id of a folder or file that somebody shares.
import type { RouteLocationNormalizedLoaded, RouteLocationRaw } from "vue-router";

/** The place of a path; empty: one's own drive. */
export const placeOf = (path: string): string => /^\/\/([^/]+)/.exec(path)?.[1] ?? "";
const below = (path: string): string => path.slice(placeOf(path) ? placeOf(path).length + 2 : 0);

/** The names below the place. */
export const segments = (path: string): string[] => below(path).split("/").filter(Boolean);
export const joined = (names: readonly string[], place = ""): string => (place ? [`//${place}`, ...names].join("/") : "/" + names.join("/"));
export const parentPath = (path: string): string => joined(segments(path).slice(0, -1), placeOf(path));
export const childPath = (folder: string, name: string): string => joined([...segments(folder), name], placeOf(folder));
/** The place's root. */
export const isTop = (path: string): boolean => segments(path).length === 0;
/** A folder and all that are above it, the place's root first. */
export const stepsTo = (path: string): string[] => [joined([], placeOf(path)), ...segments(path).map((_, i, all) => joined(all.slice(0, i + 1), placeOf(path)))];
export const isBelow = (path: string, folder: string): boolean =>
  placeOf(path) === placeOf(folder) && (path === folder || path.startsWith(folder === "/" ? "/" : folder + "/"));

export function folderRoute(path: string): RouteLocationRaw {
  const place = placeOf(path);
  return place ? { name: "space", params: { place, path: segments(path) } } : { name: "files", params: { path: segments(path) } };
}

/** The folder that an address shows; undefined: it shows something else. */
export function pathOfRoute(route: RouteLocationNormalizedLoaded): string | undefined {
  const names = [route.params["path"] ?? []].flat().filter(Boolean);
  if (route.name === "files") return joined(names);
  return route.name === "space" ? joined(names, String(route.params["place"])) : undefined;
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
