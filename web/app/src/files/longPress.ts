// A finger that stays on an entry. The tap and the menu that browsers make of it afterwards are left out.
const after = 500; // ms
const slack = 10; // px that a finger trembles

export function useLongPress(act: (id: string) => void): Record<string, (e: Event) => void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let from = { x: 0, y: 0 };
  let pressed = false;

  const stop = () => clearTimeout(timer);
  const swallow = (e: Event) => {
    if (!pressed) return;
    e.preventDefault();
    e.stopPropagation();
  };

  return {
    pointerdown(event) {
      const e = event as PointerEvent;
      pressed = false;
      stop();
      const id = (e.target as HTMLElement).closest("[data-entry]")?.id.replace(/^entry-/, "");
      if (e.pointerType !== "touch" || !e.isPrimary || !id) return;
      from = { x: e.clientX, y: e.clientY };
      timer = setTimeout(() => {
        pressed = true;
        act(id);
      }, after);
    },
    pointermove(event) {
      const e = event as PointerEvent;
      if (Math.hypot(e.clientX - from.x, e.clientY - from.y) > slack) stop();
    },
    pointerup: stop,
    pointercancel: stop,
    clickCapture: swallow,
    contextmenuCapture(event) {
      if (pressed || (event as PointerEvent).pointerType === "touch") {
        pressed = true;
        swallow(event);
      }
    },
  };
}
