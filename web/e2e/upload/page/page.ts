/** A bare page around the library: what the tests steer and see. */
import { type ItemView, Uploader, type UploaderOptions } from "@smartdrive/upload";

let up: Uploader;

const view = (i: ItemView) => ({ id: i.id, path: i.path, size: i.size, state: i.state, uploadId: i.uploadId, moved: i.moved });

const page = {
  start(options: UploaderOptions) {
    up = new Uploader(options);
  },
  add(input: "files" | "folder", folder: string) {
    const { files } = document.getElementById(input) as HTMLInputElement;
    return up.addFiles(files!, { folder }).map((i) => i.id);
  },
  /** Adds a file of the origin's own file system, whose handle the browser keeps and may always read. */
  async addOwn(name: string, mib: number) {
    const handle = await (await navigator.storage.getDirectory()).getFileHandle(name, { create: true });
    const out = await handle.createWritable();
    for (let n = 0; n < mib; n++) {
      await out.write(crypto.getRandomValues(new Uint8Array(1 << 16)));
      await out.write(new Uint8Array((1 << 20) - (1 << 16)));
    }
    await out.close();
    return up.add([{ file: await handle.getFile(), handle }], { folder: "/" })[0]!.id;
  },
  async restore() {
    return (await up.restore()).map(view);
  },
  provide(id: string) {
    up.provide(id, (document.getElementById("files") as HTMLInputElement).files![0]!);
  },
  items: () => up.items.map(view),
  item: (id: string) => view(up.get(id)!),
  summary: () => up.summary(),
  retry: () => up.retry(),
  /** A file of the input by bare fetch to a bare server; returns bytes per second. */
  async bare(url: string) {
    const file = (document.getElementById("files") as HTMLInputElement).files![0]!;
    const begin = performance.now();
    await fetch(url, { method: "PUT", body: file });
    return file.size / ((performance.now() - begin) / 1000);
  },
};

declare global {
  interface Window {
    drive: typeof page;
  }
}
window.drive = page;
