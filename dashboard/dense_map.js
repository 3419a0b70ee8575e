// The block map of a large pool on one canvas: a byte a square, see dense_map.py. Kept between ticks; only drawn anew.
const FILLS = 9, OTHER = 16, SHARED = 17, FREE = 18, LOCKED = 19, UNUSABLE = 20, CACHED = 21;

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

function color(state, look) {
  if (state < OTHER) return look.hues[state % 8];
  return { [OTHER]: look.other, [SHARED]: look.ink, [LOCKED]: look.locked, [UNUSABLE]: look.muted, [CACHED]: look.padding }[state];
}

function draw(canvas, { cells, chosen, columns, look }) {
  const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
  const width = Math.max(1, Math.round(box.width * ratio)), height = Math.max(1, Math.round(box.height * ratio));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const all = bytes(cells), mine = chosen ? bytes(chosen) : null, pen = canvas.getContext("2d");
  const rows = Math.ceil(all.length / columns), w = width / columns, h = height / rows, gap = w > 5 ? 1 : 0;
  pen.clearRect(0, 0, width, height);
  all.forEach((code, i) => {
    const state = Math.floor(code / FILLS), fill = (code % FILLS) / (FILLS - 1);
    const x = Math.floor((i % columns) * w), y = Math.floor(Math.floor(i / columns) * h);
    const wide = Math.floor(((i % columns) + 1) * w) - x - gap, high = Math.floor((Math.floor(i / columns) + 1) * h) - y - gap;
    if (state === FREE) {
      pen.globalAlpha = 0.5;
      pen.fillStyle = look.grid;
      pen.fillRect(x, y, wide, high);
      return;
    }
    const strong = mine && !(mine[i >> 3] & (1 << (i & 7))) ? 0.28 : 1;
    pen.fillStyle = color(state, look);
    if (state > SHARED) {
      pen.globalAlpha = strong;
      if (state === LOCKED) pen.fillRect(x, y, wide, high);
      else if (state === CACHED) pen.fillRect(x + wide / 4, y + high / 4, wide / 2, high / 2);
      else pen.fillRect(x, y + high / 2, wide, Math.max(1, high / 6));
      return;
    }
    const hollow = state < OTHER && state >= 8;
    pen.globalAlpha = strong * 0.28;
    pen.fillRect(x, y, wide, high);
    pen.globalAlpha = strong * (hollow ? 0.6 : 1);
    pen.fillRect(x, y + high * (1 - fill), wide, high * fill);
  });
  pen.globalAlpha = 1;
}

function tell(canvas, event, { cells, columns, per_cell, look, words }) {
  const box = canvas.getBoundingClientRect(), all = bytes(cells), rows = Math.ceil(all.length / columns);
  const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
  const i = Math.floor(((event.clientY - box.top) / box.height) * rows) * columns + column;
  if (!(i >= 0 && i < all.length)) return "";
  const state = Math.floor(all[i] / FILLS), first = i * per_cell + 1;
  const name = state < OTHER ? look.letters[state] : words[state - OTHER];
  const blocks = per_cell > 1 ? `${first}–${first + per_cell - 1}` : first;
  return `${words[6]} ${blocks}: ${name}${state < FREE ? ` ${all[i] % FILLS}/8` : ""}`;
}

export default function ({ parentElement: root, data }) {
  const canvas = root.querySelector("canvas");
  canvas.__grown ??= data.grows * Math.min(data.most, Math.max(0, window.innerHeight - data.plain));
  canvas.style.height = `${data.height + canvas.__grown}px`;
  canvas.setAttribute("aria-label", data.alt);
  canvas.__data = data;
  if (!canvas.__watch) {
    canvas.__watch = new ResizeObserver(() => draw(canvas, canvas.__data));
    canvas.__watch.observe(canvas);
    canvas.addEventListener("mousemove", (event) => (canvas.title = tell(canvas, event, canvas.__data)));
  }
  draw(canvas, data);
  return () => {
    canvas.__watch?.disconnect();
    canvas.__watch = null;
  };
}
