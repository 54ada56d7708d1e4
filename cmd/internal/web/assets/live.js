// Swaps the sections of a page that have changed. Without it pages are as they were when they were loaded.
"use strict";
(() => {
  const main = document.getElementById("main");
  let version = document.body.dataset.version, stream = null;
  if (!version) return;

  // A form that the user has begun to fill in, or that has the focus, is not replaced.
  const inUse = (part) => [...part.querySelectorAll("textarea, input:not([type=hidden])")].some((field) =>
    field === document.activeElement || field.value !== field.defaultValue || field.checked !== field.defaultChecked);

  const swap = (id, html) => {
    const made = new DOMParser().parseFromString(html, "text/html").getElementById(id);
    const old = document.getElementById(id);
    if (!made || old && inUse(old)) return;
    if (!old) {
      main.append(made);
      return;
    }
    for (const part of made.querySelectorAll("details[id]")) {
      const before = document.getElementById(part.id);
      if (before) part.open = before.open;
    }
    const scrolled = [...old.querySelectorAll(".scroll, pre")].map((part) => [part.scrollLeft, part.scrollTop]);
    const held = old.contains(document.activeElement) ? document.activeElement : null;
    const place = held ? [...old.querySelectorAll("a, button, summary, [tabindex]")].indexOf(held) : -1;
    const [left, top] = [old.scrollLeft, old.scrollTop];
    old.replaceWith(made);
    made.scrollTo(left, top);
    [...made.querySelectorAll(".scroll, pre")].forEach((part, i) => scrolled[i] && part.scrollTo(...scrolled[i]));
    if (place >= 0) made.querySelectorAll("a, button, summary, [tabindex]")[place]?.focus({ preventScroll: true });
  };

  const take = (event) => {
    version = event.lastEventId;
    const { order, changed } = JSON.parse(event.data);
    for (const [id, html] of Object.entries(changed)) swap(id, html);
    for (const part of [...main.querySelectorAll(":scope > section")]) {
      if (!order.includes(part.id) && !inUse(part)) part.remove();
    }
    let before = null; // from the last one up, so that what is in its place is not moved and keeps the focus
    for (const id of order.toReversed()) {
      const part = document.getElementById(id);
      if (part && part.nextElementSibling !== before) main.insertBefore(part, before);
      before = part || before;
    }
  };

  // Browsers allow six connections per server: a hidden page closes its own.
  const connect = () => {
    if (document.hidden) {
      stream?.close();
      stream = null;
    } else if (!stream) {
      const address = new URL(location.href);
      address.searchParams.set("version", version);
      address.hash = "";
      stream = new EventSource(address);
      stream.onmessage = take;
      stream.onopen = () => { document.getElementById("stale").hidden = true; };
      stream.onerror = () => { document.getElementById("stale").hidden = false; };
    }
  };
  document.addEventListener("visibilitychange", connect);
  window.addEventListener("pagehide", () => { stream?.close(); stream = null; });
  window.addEventListener("pageshow", connect);
  connect();
})();
