import { describe, expect, test } from "vitest";
import { largest, swiped, useZoom } from "./zoom";

describe("zoom", () => {
  test("what is at the pointer stays there", () => {
    const zoom = useZoom();
    zoom.by(2, { x: 100, y: 40 });
    zoom.by(1.5, { x: 100, y: 40 });
    expect([zoom.scale.value, zoom.x.value, zoom.y.value]).toEqual([3, -200, -80]); // 100 px from the middle: 300 of the picture, less 200
  });
  test("it ends at the largest, and small enough is the whole picture again", () => {
    const zoom = useZoom();
    zoom.by(1000);
    expect(zoom.scale.value).toBe(largest);
    zoom.move(50, 50);
    zoom.by(0.01);
    expect([zoom.scale.value, zoom.x.value, zoom.y.value]).toEqual([1, 0, 0]);
  });
});

test("a swipe is far and level", () => {
  const from = { x: 0, y: 0 };
  expect(swiped(from, { x: -100, y: 20 })).toBe(1);
  expect(swiped(from, { x: 100, y: -20 })).toBe(-1);
  expect(swiped(from, { x: -40, y: 0 })).toBe(0);
  expect(swiped(from, { x: -100, y: 100 })).toBe(0);
});
