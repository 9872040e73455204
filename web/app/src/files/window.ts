// Which rows of a long list are to be drawn.

export interface Window {
  first: number; // the first item
  end: number; // after the last item
  top: number; // px of the first row
  height: number; // px of all rows
}

export interface Rows {
  items: number;
  columns: number;
  rowHeight: number; // px
  above?: number; // px before the first row, within what scrolls
  covered?: number; // px at the top of the view that a header lies over
}

/** Rows beyond the edges that are drawn too, so that a fast scroll shows no gap. */
const overscan = 6;

export function windowOf(rows: Rows, scrollTop: number, viewHeight: number): Window {
  const all = Math.ceil(rows.items / rows.columns);
  scrollTop -= rows.above ?? 0;
  const from = Math.max(0, Math.min(all, Math.floor(scrollTop / rows.rowHeight)) - overscan);
  const to = Math.min(all, Math.ceil((scrollTop + viewHeight) / rows.rowHeight) + overscan);
  return {
    first: from * rows.columns,
    end: Math.min(rows.items, to * rows.columns),
    top: from * rows.rowHeight,
    height: all * rows.rowHeight,
  };
}

/** Where to scroll so that the item is seen; the present place if it is. */
export function scrollFor(rows: Rows, item: number, scrollTop: number, viewHeight: number): number {
  const top = Math.floor(item / rows.columns) * rows.rowHeight + (rows.above ?? 0);
  const covered = rows.covered ?? 0;
  if (top - covered < scrollTop) return Math.max(0, top - covered);
  if (top + rows.rowHeight > scrollTop + viewHeight) return top + rows.rowHeight - viewHeight;
  return scrollTop;
}
