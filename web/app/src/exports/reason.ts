// Why an entry, or a whole export, failed: words of the server's, said in the language of the page.
import { useI18n } from "vue-i18n";

export function useExportReasons(): (word: string) => string {
  const { t, te } = useI18n();
  return (word) => (te(`exports.reasons.${word}`) ? t(`exports.reasons.${word}`) : word);
}
