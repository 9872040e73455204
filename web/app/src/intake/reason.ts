// Reasons are words of the server's; those that are known are said in the language of the page.
import { useI18n } from "vue-i18n";
import type { Bundle, Outcome } from "@/api/intake";

export function useReasons(): (word: string) => string {
  const { t, te } = useI18n();
  return (word) => (te(`bundles.reasons.${word}`) ? t(`bundles.reasons.${word}`) : word);
}

export const stateTone = (s: Bundle["state"]) => ({ sealed: "info", running: "primary", done: "success", rejected: "danger" } as const)[s];
export const outcomeTone = (o: Outcome) => ({ accepted: "success", rejected: "danger", duplicate: "info", conflict: "warning" } as const)[o];
