// What a file is, for its icon and its preview.
import { shallowRef } from "vue";
import type { Node } from "@/api/types";

export type Kind =
  | "folder" | "image" | "video" | "audio" | "pdf" | "markdown" | "code" | "text"
  | "document" | "sheet" | "slides" | "archive" | "app" | "other";

const byExtension: Record<Exclude<Kind, "folder" | "other">, string> = {
  image: "jpg jpeg png gif webp avif bmp ico svg heic heif tif tiff raw cr2 nef psd",
  video: "mp4 m4v mov webm mkv avi flv wmv mpg mpeg ts m2ts 3gp rmvb",
  audio: "mp3 m4a aac ogg oga opus flac wav wma ape aiff mid",
  pdf: "pdf",
  markdown: "md markdown mdown",
  code: "js mjs cjs jsx tsx vue svelte go rs py rb php java kt kts swift c h cc cpp hpp cs scala lua pl r sh bash zsh ps1 bat sql html htm css scss less json jsonc yaml yml toml xml ini conf cfg env dockerfile makefile proto graphql diff patch",
  text: "txt log csv tsv srt vtt nfo readme license gitignore",
  document: "doc docx odt rtf pages wps epub mobi azw3",
  sheet: "xls xlsx ods numbers et",
  slides: "ppt pptx odp key dps",
  archive: "zip rar 7z tar gz tgz bz2 xz zst lz4 iso dmg cab",
  app: "exe msi apk ipa deb rpm appimage pkg jar bin img wasm",
};

const kinds = new Map<string, Kind>();
for (const [kind, list] of Object.entries(byExtension)) for (const ext of list.split(" ")) kinds.set(ext, kind as Kind);

export function extension(name: string): string {
  const dot = name.lastIndexOf(".");
  return dot < 0 ? name.toLowerCase() : name.slice(dot + 1).toLowerCase();
}

export function kindOf(node: Pick<Node, "type" | "name"> & { mime?: string }): Kind {
  if (node.type === "folder") return "folder";
  const found = kinds.get(extension(node.name));
  if (found) return found;
  const mime = node.mime ?? "";
  for (const kind of ["image", "video", "audio"] as const) if (mime.startsWith(kind + "/")) return kind;
  if (mime === "application/pdf") return "pdf";
  if (mime.startsWith("text/")) return "text";
  return "other";
}

/** Images that browsers show. SVG is one of them: as the src of an img it runs no script. */
const shownImages = new Set("jpg jpeg png gif webp avif bmp ico svg".split(" "));
const largestText = 2 << 20; // bytes: more is slow to highlight and no one reads it here

/** The files, besides images, that the server makes pictures of, by the kinds that it names: it depends on the programs that it has. */
const drawable: Record<string, RegExp> = { video: /^(mp4|m4v|mov|3gp|webm|mkv|avi)$/, pdf: /^pdf$/, heic: /^hei[cf]$/, tiff: /^tiff?$/ };
const drawn = shallowRef<RegExp[]>([]);

/** Notes what the server makes pictures of. */
export function drawnKinds(kinds: readonly string[]): void {
  drawn.value = kinds.flatMap((kind) => drawable[kind] ?? []);
}
const isDrawn = (node: Node) => drawn.value.some((names) => names.test(extension(node.name)));

/** How a file can be looked at here; undefined: it can only be downloaded. A drawn one is seen as the picture that the server makes of it. */
export function previewOf(node: Node): "archive" | "image" | "drawn" | "video" | "audio" | "pdf" | "markdown" | "code" | "text" | undefined {
  const kind = kindOf(node);
  switch (kind) {
    case "image":
      return shownImages.has(extension(node.name)) || /^image\/(jpeg|png|gif|webp|avif)$/.test(node.mime) ? "image" : isDrawn(node) && node.size > 0 ? "drawn" : undefined;
    case "video":
    case "audio":
    case "pdf":
      return kind;
    case "markdown":
    case "code":
    case "text":
      return node.size <= largestText ? kind : undefined;
    case "archive":
      return /^(zip|tar)$/.test(extension(node.name)) && node.size > 0 ? kind : undefined;
    default:
      return undefined;
  }
}

/** Files that the server makes a thumbnail of. */
export function hasThumbnail(node: Node): boolean {
  return node.type === "file" && node.size > 0 && (/^(jpe?g|png|gif|webp|bmp)$/.test(extension(node.name)) || isDrawn(node));
}
