// The place of the runtime surface on a page: a frame of the extension, in one corner, where the settings want one.
//
// Plain JavaScript, on purpose: what a page forbids itself (its Content-Security-Policy) it forbids to WASM in a content
// script too, and storage and locks here would be the page's. So everything that knows the state runs in the frame, and
// this file knows where the frame lies and whether there is one. Where the extension was reloaded, disabled or removed,
// this script outlives it without a notice; it looks for that, takes the frame away and leaves without a word. Where a page
// replaces its document, the frame comes back within a second.

(() => {
  const { SETTINGS_KEY, PLACE_KEY, SURFACE_READY, CORNERS } = globalThis.synclineNames;

  // In a closed shadow tree, where the page's styles do not reach.
  const STYLE = `
    :host { all: initial !important; }
    .place { position: fixed; z-index: 2147483647; visibility: hidden; color-scheme: light dark; }
    .place[data-ready] { visibility: visible; }
    .place { width: min(340px, calc(100vw - 24px)); height: min(440px, calc(100vh - 24px)); }
    .place[data-collapsed] { width: 116px; height: 44px; }
    .place[data-corner^="top"] { top: 12px; }
    .place[data-corner^="bottom"] { bottom: 12px; }
    .place[data-corner$="left"] { left: 12px; }
    .place[data-corner$="right"] { right: 12px; }
    iframe { display: block; width: 100%; height: 100%; border: 0; color-scheme: light dark; }
    @media print { .place { display: none; } }
  `;
  // Nothing tells an orphaned content script that it is one.
  const ALIVE_CHECK_MS = 1_000;

  // Not a document one could put a frame into: a picture in SVG, or a sandbox, which would be one for the frame as well.
  if (!(document.documentElement instanceof HTMLElement) || self.origin === "null") return;

  let shown = true;
  let place = { collapsed: true, corner: CORNERS[0] };
  let surface = null;
  const leaving = new AbortController();

  chrome.runtime.onMessage.addListener(onMessage);
  chrome.storage.onChanged.addListener(onChanged);
  // A page that comes back from the back/forward cache has missed every change.
  addEventListener("pageshow", ({ persisted }) => persisted && readAll(), { signal: leaving.signal });
  document.addEventListener("visibilitychange", isAlive, { signal: leaving.signal });
  const timer = setInterval(keepSurface, ALIVE_CHECK_MS);
  readAll();

  async function readAll() {
    try {
      const stored = await chrome.storage.local.get([SETTINGS_KEY, PLACE_KEY]);
      readSettings(stored[SETTINGS_KEY]);
      readPlace(stored[PLACE_KEY]);
      update();
    } catch {
      // Either the extension is gone, or its storage cannot be read, and then the frame could show nothing.
      isAlive();
    }
  }

  function onChanged(changes, area) {
    if (area !== "local" || !(SETTINGS_KEY in changes || PLACE_KEY in changes)) return;
    if (SETTINGS_KEY in changes) readSettings(changes[SETTINGS_KEY].newValue);
    if (PLACE_KEY in changes) readPlace(changes[PLACE_KEY].newValue);
    update();
  }

  // Contents that are no settings change nothing, as in the rules; none at all are the default, which is everywhere.
  function readSettings(settings = { featureEnabled: true, scopeMode: "all" }) {
    const { featureEnabled, scopeMode, scopeTargetId } = Object(settings);
    if (typeof featureEnabled !== "boolean" || !["all", "specific"].includes(scopeMode)) return;
    const isInScope = scopeMode === "all" || String(scopeTargetId).toLowerCase() === location.hostname;
    shown = featureEnabled && isInScope;
  }

  function readPlace(stored) {
    const { collapsed, corner } = Object(stored);
    place = { collapsed: collapsed !== false, corner: CORNERS.includes(corner) ? corner : CORNERS[0] };
  }

  function update() {
    if (!isAlive()) return;
    if (!shown) return removeSurface();
    surface ??= makeSurface();
    surface.box.dataset.corner = place.corner;
    surface.box.toggleAttribute("data-collapsed", place.collapsed);
  }

  function makeSurface() {
    const [host, box, frame] = ["div", "div", "iframe"].map((name) => document.createElement(name));
    const token = crypto.getRandomValues(new Uint32Array(4)).join("-");
    // A page that is isolated from other origins allows no other frame; this one needs nothing of what is kept from it.
    frame.credentialless = true;
    frame.src = `${chrome.runtime.getURL("runtime.html")}#${token}`;
    frame.title = "Syncline checklist";
    box.className = "place";
    box.append(frame);
    const tree = host.attachShadow({ mode: "closed" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    tree.adoptedStyleSheets = [sheet];
    tree.append(box);
    document.documentElement.append(host);
    return { host, box, token };
  }

  // What a page could embed under the same address has no token, and is told nothing.
  function onMessage(message, sender, respond) {
    if (message?.action !== SURFACE_READY || surface === null || message.token !== surface.token) return;
    // Not before there is something to see: a frame that the browser refuses to load stays out of sight.
    surface.box.toggleAttribute("data-ready", true);
    respond(true);
  }

  // A page may replace its whole document, and the surface with it.
  function keepSurface() {
    if (!isAlive() || surface === null || surface.host.isConnected) return;
    if (!(document.documentElement instanceof HTMLElement)) return;
    removeSurface();
    update();
  }

  function removeSurface() {
    surface?.host.remove();
    surface = null;
  }

  function isAlive() {
    if (chrome.runtime?.id !== undefined) return true;
    clearInterval(timer);
    leaving.abort();
    removeSurface();
    return false;
  }
})();
