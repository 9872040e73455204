// How large a picture is shown and where: 1 is as large as the window. Places are px from its middle.
import { ref } from "vue";

export const largest = 12; // times
const farEnough = 60; // px that a swipe goes at least

export interface Place {
  x: number;
  y: number;
}

export function useZoom() {
  const scale = ref(1);
  const x = ref(0);
  const y = ref(0);

  function reset(): void {
    scale.value = 1;
    x.value = y.value = 0;
  }

  /** Makes it so many times larger; what is at the place stays there. */
  function by(times: number, at: Place = { x: 0, y: 0 }): void {
    const next = Math.min(largest, scale.value * times);
    if (next <= 1) return reset();
    const grown = next / scale.value;
    x.value = at.x - (at.x - x.value) * grown;
    y.value = at.y - (at.y - y.value) * grown;
    scale.value = next;
  }

  function move(dx: number, dy: number): void {
    x.value += dx;
    y.value += dy;
  }

  return { scale, x, y, by, move, reset };
}

/** Where a finger that went from one place to the other wants to go: 1 to the next, -1 to the one before, 0 nowhere. */
export function swiped(from: Place, to: Place): -1 | 0 | 1 {
  const dx = to.x - from.x;
  if (Math.abs(dx) < farEnough || Math.abs(dx) < 1.5 * Math.abs(to.y - from.y)) return 0;
  return dx < 0 ? 1 : -1;
}
