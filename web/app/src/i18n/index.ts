import { createI18n } from "vue-i18n";
import { shallowRef } from "vue";
import type { Language as ElementLocale } from "element-plus/es/locale";
import { speak } from "@/api/client";
import type { Messages } from "./en";
import type { WorkMessages } from "./en-work";
import { visible } from "@/format";

export type Language = "en" | "zh-CN";
export const languages: { value: Language; label: string }[] = [
  { value: "zh-CN", label: "简体中文" },
  { value: "en", label: "English" },
];

export const i18n = createI18n<[Messages & WorkMessages], Language, false>({
  legacy: false,
  locale: "en",
  fallbackLocale: "en",
  missingWarn: false,
  fallbackWarn: false,
  // Whatever a sentence names: the texts themselves have no character that one cannot see.
  postTranslation: (text) => (typeof text === "string" ? visible(text) : text),
  messages: {} as Record<Language, Messages & WorkMessages>,
});

/** The texts of Element Plus in the language of the page. */
export const elementLocale = shallowRef<ElementLocale>();

const loaders: Record<Language, () => Promise<[Messages, ElementLocale]>> = {
  en: async () => [(await import("./en")).default, (await import("element-plus/es/locale/lang/en")).default],
  "zh-CN": async () => [(await import("./zh-CN")).default, (await import("element-plus/es/locale/lang/zh-cn")).default],
};
const workLoaders: Record<Language, () => Promise<{ default: WorkMessages }>> = {
  en: () => import("./en-work"),
  "zh-CN": () => import("./zh-CN-work"),
};
let work = false; // the texts of documents' and administrators' pages belong to each language
const works = new Map<Language, Promise<void>>();

/** Loads a language and turns the page to it. */
export async function loadMessages(language: Language): Promise<void> {
  const [messages, element] = await loaders[language]();
  i18n.global.mergeLocaleMessage(language, messages);
  if (work) await mergeWork(language); // asked now: they may have become part of it while the language was on its way
  i18n.global.locale.value = language;
  elementLocale.value = element;
  document.documentElement.lang = language;
  speak(language);
}

/** Loads the texts of the pages of documents and of administrators too, in this language and in those that are turned to later. */
export function loadWorkMessages(): Promise<void> {
  work = true;
  return mergeWork(i18n.global.locale.value);
}

/** Loads those texts in a language, once. */
function mergeWork(language: Language): Promise<void> {
  let merged = works.get(language);
  if (!merged) {
    merged = workLoaders[language]().then((loaded) => i18n.global.mergeLocaleMessage(language, loaded.default));
    works.set(language, merged);
    merged.catch(() => works.delete(language)); // the next one tries again
  }
  return merged;
}
