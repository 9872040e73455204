// Whether there is room for details beside a list.
import { onScopeDispose, ref, type Ref } from "vue";

export function useWide(): Ref<boolean> {
  const room = matchMedia("(min-width: 1200px)");
  const wide = ref(room.matches);
  const look = (): void => void (wide.value = room.matches);
  room.addEventListener("change", look);
  onScopeDispose(() => room.removeEventListener("change", look));
  return wide;
}
