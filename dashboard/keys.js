// Every key of the page, and the list of them. Presses are numbered here and reach the server as a list, so that two
// presses in one message are two, and one press that is sent twice is one.
const TYPED = "textarea, select, [contenteditable=true], [role=combobox], [role=listbox], [role=option], [role=menu]";
const TYPED_INPUT = "input:not([type=range]):not([type=checkbox]):not([type=radio]):not([type=button])";
const OWN_ARROWS = "input[type=range], input[type=radio], [role=tab], [role=radio], [role=slider], [tabindex='0'].bs-scroll";
const OWN_SPACE = "button, a[href], summary, input, [role=button], [role=tab], [role=switch], [role=checkbox]";
const KEPT = 40;
const SETTLED_MS = 2500; // after loading: before, controls may not have heard of their values, and a message reports them

function isTaken(event) {
  const target = event.composedPath()[0];
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return true;
  if (!(target instanceof Element)) return false;
  if (target.isContentEditable || target.closest(TYPED) || target.matches(TYPED_INPUT)) return true;
  if (event.key.startsWith("Arrow") && target.closest(OWN_ARROWS)) return true;
  return (event.key === " " || event.key === "Enter") && Boolean(target.closest(OWN_SPACE));
}

// The request, or the block, that is named under the pointer: by an element's own mark, or by the tooltip of a chart.
function named(path, names) {
  const marked = path.find((node) => node instanceof HTMLElement && node.dataset.request);
  if (marked) return `choose.${marked.dataset.request}`;
  if (!path.some((node) => node instanceof Element && node.matches("[data-testid=stVegaLiteChart]"))) return "";
  for (const row of document.querySelectorAll("#vg-tooltip-element.visible tr")) {
    const action = names[row.querySelector(".key")?.textContent.trim() ?? ""];
    const value = row.querySelector(".value")?.textContent.trim();
    if (action && value) return `${action}.${action === "block" ? value.replaceAll(",", "") : value}`;
  }
  return "";
}

function fill(dialog, data) {
  const list = document.createElement("dl");
  for (const [keys, words] of data.rows) {
    const term = document.createElement("dt");
    for (const key of keys) {
      const cap = document.createElement("kbd");
      cap.textContent = key;
      term.append(cap, " ");
    }
    const meaning = document.createElement("dd");
    meaning.textContent = words;
    list.append(term, meaning);
  }
  const title = document.createElement("h2");
  title.id = "bs-keys-title";
  title.textContent = data.title;
  const close = document.createElement("button");
  close.textContent = data.close;
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(title, list, close);
  dialog.lang = data.language;
}

function start(root, kept) {
  const dialog = root.querySelector("dialog");
  const open = root.querySelector(".open");
  // A page whose theme changes puts up another listener; this one may live on without its elements, and is deaf then.
  const isGone = () => !dialog.isConnected;
  const toggle = () => (dialog.open ? dialog.close() : dialog.showModal());
  const send = (action) => {
    kept.count += 1;
    kept.presses = [...kept.presses, [kept.count, action]].slice(-KEPT);
    kept.component.setStateValue("pressed", { page: kept.page, presses: kept.presses });
  };
  const onKey = (event) => {
    if (isGone() || isTaken(event)) return;
    if (event.key === "?") {
      event.preventDefault();
      toggle();
      return;
    }
    if (performance.now() - kept.since < SETTLED_MS || dialog.open || document.querySelector("[role=dialog]")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const actions = kept.component.data.actions;
    const action = event.shiftKey ? actions[`Shift+${key}`] : (actions[key] ?? actions[event.code]);
    if (!action) return;
    if (event.key === " ") event.preventDefault();
    send(action);
  };
  const onClick = (event) => {
    const action = isGone() || dialog.open ? "" : named(event.composedPath(), kept.component.data.names);
    if (action && performance.now() - kept.since >= SETTLED_MS) send(action);
  };
  open.addEventListener("click", toggle);
  document.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  return () => {
    document.removeEventListener("keydown", onKey);
    document.removeEventListener("click", onClick);
    open.removeEventListener("click", toggle);
  };
}

export default function (component) {
  const root = component.parentElement;
  const kept = (root.__keys ??= { since: (window.batchscopeSince ??= performance.now()), count: 0, presses: [], page: crypto.getRandomValues(new Uint32Array(2)).join("-") });
  kept.component = component;
  const open = root.querySelector(".open");
  open.setAttribute("aria-label", component.data.title);
  open.title = component.data.title;
  open.hidden = component.data.hidden;
  fill(root.querySelector("dialog"), component.data);
  if (kept.open !== open) {
    kept.stop?.();
    kept.stop = null;
    kept.open = open;
  }
  kept.stop ??= start(root, kept);
  return () => {
    kept.stop?.();
    kept.stop = null;
  };
}
