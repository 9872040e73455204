import { defineStore } from "pinia";
import { computed, ref, watch } from "vue";
import * as api from "@/api/account";
import type { Preferences } from "@/api/types";
import { loadMessages, type Language } from "@/i18n";

const key = "smartdrive.preferences";

function stored(): Preferences {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "{}") as Preferences;
  } catch {
    return {};
  }
}

function browserLanguage(): Language {
  return navigator.languages.some((l) => l.toLowerCase().startsWith("zh")) &&
    !navigator.languages[0]?.toLowerCase().startsWith("en")
    ? "zh-CN"
    : "en";
}

/** Language, theme and view: kept in the browser, and for the user at the server. */
export const usePreferences = defineStore("preferences", () => {
  const first = stored();
  const language = ref<Language>(first.language ?? browserLanguage());
  const theme = ref<"light" | "dark" | "auto">(first.theme ?? "auto");
  const view = ref<"list" | "grid">(first.view ?? "list");

  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const systemIsDark = ref(systemDark.matches);
  systemDark.addEventListener("change", (e) => (systemIsDark.value = e.matches));
  const dark = computed(() => theme.value === "dark" || (theme.value === "auto" && systemIsDark.value));

  watch(dark, (on) => document.documentElement.classList.toggle("dark", on), { immediate: true });
  watch(language, (l) => void loadMessages(l));

  const all = (): Preferences => ({ language: language.value, theme: theme.value, view: view.value });
  let fetched = false;

  watch([language, theme, view], () => {
    try {
      localStorage.setItem(key, JSON.stringify(all()));
    } catch {
      // The browser keeps nothing: the server does.
    }
    if (fetched) api.savePreferences(all()).catch(() => {}); // it is kept here, and is saved with the next change
  });

  /** Takes over what the user chose elsewhere. */
  async function fetchThem(): Promise<void> {
    const theirs = await api.preferences().catch((): Preferences => ({}));
    language.value = theirs.language ?? language.value;
    theme.value = theirs.theme ?? theme.value;
    view.value = theirs.view ?? view.value;
    await Promise.resolve(); // the watchers have run: what came is not sent back
    fetched = true;
  }

  return { language, theme, view, dark, fetchThem };
});
