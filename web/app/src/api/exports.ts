// Zips of several files, or of a folder, that the server puts together while it sends them.
import { apiURL, call } from "./client";

export interface Archive {
  id: string;
  total: number; // files
  failed: number; // of them those that cannot be read
  size: number; // bytes
}

export type Choice = { nodes: string[]; name: string } | { folder: string };

export const createArchive = (choice: Choice) => call<Archive>("POST", "/archives", { body: choice, once: true });
export const archiveURL = (id: string) => apiURL(`/archives/${id}`);
