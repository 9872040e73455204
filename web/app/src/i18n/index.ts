import { createI18n } from "vue-i18n";
import { shallowRef } from "vue";
import type { Language as ElementLocale } from "element-plus/es/locale";
import { speak } from "@/api/client";
import type { Messages } from "./en";
import type { TeamMessages } from "./en-team";
import type { WorkMessages } from "./en-work";
import { visible } from "@/format";

export type Language = "en" | "zh-CN";
export const languages: { value: Language; label: string }[] = [
  { value: "zh-CN", label: "简体中文" },
  { value: "en", label: "English" },
];

type All = Messages & WorkMessages & TeamMessages;
export const i18n = createI18n<[All], Language, false>({
  legacy: false,
  locale: "en",
  fallbackLocale: "en",
  missingWarn: false,
  fallbackWarn: false,
  // Whatever a sentence names: the texts themselves have no character that one cannot see.
  postTranslation: (text) => (typeof text === "string" ? visible(text) : text),
  messages: {} as Record<Language, All>,
});

/** The texts of Element Plus in the language of the page. */
export const elementLocale = shallowRef<ElementLocale>();

const loaders: Record<Language, () => Promise<[Messages, ElementLocale]>> = {
  en: async () => [(await import("./en")).default, (await import("element-plus/es/locale/lang/en")).default],
  "zh-CN": async () => [(await import("./zh-CN")).default, (await import("element-plus/es/locale/lang/zh-cn")).default],
};
/** Texts that are not loaded with the first page: those of documents' and administrators' pages, and those of sharing with people. */
type Part = "work" | "team";
const partLoaders: Record<Part, Record<Language, () => Promise<{ default: WorkMessages | TeamMessages }>>> = {
  work: { en: () => import("./en-work"), "zh-CN": () => import("./zh-CN-work") },
  team: { en: () => import("./en-team"), "zh-CN": () => import("./zh-CN-team") },
};
const parts = new Set<Part>(); // what belongs to each language by now
const merged = new Map<string, Promise<void>>();

/** Loads a language and turns the page to it. */
export async function loadMessages(language: Language): Promise<void> {
  const [messages, element] = await loaders[language]();
  i18n.global.mergeLocaleMessage(language, messages);
  await Promise.all([...parts].map((part) => merge(part, language))); // asked now: they may have become part of it while the language was on its way
  i18n.global.locale.value = language;
  elementLocale.value = element;
  document.documentElement.lang = language;
  speak(language);
}

/** Loads the texts of the pages of documents and of administrators too, in this language and in those that are turned to later. */
export const loadWorkMessages = (): Promise<void> => loadPart("work");
/** Loads the texts of sharing with people. */
export const loadTeamMessages = (): Promise<void> => loadPart("team");

function loadPart(part: Part): Promise<void> {
  parts.add(part);
  return merge(part, i18n.global.locale.value);
}

/** Loads those texts in a language, once. */
function merge(part: Part, language: Language): Promise<void> {
  const key = `${part} ${language}`;
  let running = merged.get(key);
  if (!running) {
    running = partLoaders[part][language]().then((loaded) => i18n.global.mergeLocaleMessage(language, loaded.default));
    merged.set(key, running);
    running.catch(() => merged.delete(key)); // the next one tries again
  }
  return running;
}
