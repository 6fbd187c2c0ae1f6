/* What the dashboard does in a browser beyond links and forms: it keeps the page live, times running and keys useful.
   One EventSource brings a pulse about once a second; numbers are set from it, and what is visible is fetched again
   and merged into the page, so that scroll, focus, selections and opened details stay as they are. */
(function () {
  "use strict";

  const root = document.documentElement;
  const live = () => document.getElementById("live");
  const $ = (selector, from) => (from || document).querySelector(selector);
  const $$ = (selector, from) => Array.from((from || document).querySelectorAll(selector));

  /* -- merging ------------------------------------------------------------------------------------------------------ */

  const OURS = ["fresh", "at"]; // classes that only the browser knows of
  const key = (node) => (node.nodeType === 1 ? node.id || node.dataset.key || "" : "");
  const alike = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName && !key(one);

  function mergeAttributes(old, next) {
    for (const { name } of Array.from(old.attributes)) {
      if (!next.hasAttribute(name) && name !== "open" && name !== "class") old.removeAttribute(name);
    }
    for (const { name, value } of Array.from(next.attributes)) {
      if (name === "open" || name === "class") continue;
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const kept = OURS.filter((name) => old.classList.contains(name));
    const classes = [next.getAttribute("class") || "", ...kept].join(" ").trim();
    if ((old.getAttribute("class") || "") !== classes) old.setAttribute("class", classes);
  }

  function merge(old, next) {
    if (old.nodeType !== 1) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    if (old.isEqualNode(next)) return;
    // Whoever reads further up in a log, or has paused it, keeps the lines that are in sight.
    if (old.hasAttribute("data-log") && !follows(old)) return;
    mergeAttributes(old, next);
    mergeChildren(old, next);
  }

  function mergeChildren(old, next) {
    const wanted = new Set(Array.from(next.childNodes, key).filter(Boolean));
    const known = new Map();
    for (const node of Array.from(old.childNodes)) {
      if (!key(node)) continue;
      if (wanted.has(key(node))) known.set(key(node), node);
      else node.remove();
    }
    let place = old.firstChild;
    for (const want of Array.from(next.childNodes)) {
      let found = null;
      if (key(want)) {
        found = known.get(key(want)) || null;
        known.delete(key(want));
        if (found && found.nodeName !== want.nodeName) found = null;
      } else {
        while (place && !key(place) && !alike(place, want)) {
          const passed = place;
          place = place.nextSibling;
          passed.remove();
        }
        if (place && alike(place, want)) found = place;
      }
      if (!found) {
        const added = document.importNode(want, true);
        if (added.nodeName === "TR" && key(added)) added.classList.add("fresh");
        old.insertBefore(added, place);
        continue;
      }
      if (found === place) place = place.nextSibling;
      else old.insertBefore(found, place);
      merge(found, want);
    }
    while (place) {
      const rest = place.nextSibling;
      place.remove();
      place = rest;
    }
  }

  htmx.defineExtension("merge", {
    isInlineSwap: (style) => style === "merge",
    handleSwap: (style, target, fragment) => {
      if (style !== "merge") return false;
      const next = fragment.querySelector ? fragment.querySelector("#live") || fragment : fragment;
      if (next.id === "live") mergeAttributes(target, next);
      const left = $$("[data-log]", target).filter((log) => !follows(log));
      mergeChildren(target, next);
      // Also a log that was not there before: its job has only now written its first line.
      for (const log of $$("[data-log]", target)) if (!left.includes(log)) toEnd(log);
      arrived();
      return [target];
    },
  });

  /* -- logs --------------------------------------------------------------------------------------------------------- */

  // A log stays at its end when lines are added, until somebody scrolls up in it or presses Pause. That it is not at its
  // end says nothing by itself: it may have been laid out again with another width.
  let held = false; // by the button
  let following = true;
  let seenAt = 0; // where it was scrolled to when we last looked
  const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 24;

  function follows(log) {
    if (atEnd(log)) following = true;
    else if (log.scrollTop < seenAt) following = false;
    seenAt = log.scrollTop;
    return !held && following;
  }

  function toEnd(log) {
    log.scrollTop = log.scrollHeight;
    seenAt = log.scrollTop;
    resized.observe(log);
  }

  const resized = new ResizeObserver((logs) => {
    if (!held && following) logs.forEach((log) => toEnd(log.target));
  });

  function showLogs() {
    const log = $("[data-log]");
    const pause = $("[data-log-pause]");
    if (!log || !pause) return;
    const still = !follows(log);
    const word = still ? "Follow" : "Pause";
    if (pause.textContent !== word) pause.textContent = word;
    pause.setAttribute("aria-pressed", String(still));
  }

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-log-pause]")) return;
    const log = $("[data-log]");
    held = follows(log);
    if (!held) {
      toEnd(log);
      refresh();
    }
    showLogs();
  });
  document.addEventListener("scroll", (event) => event.target.dataset?.log !== undefined && showLogs(), true);

  /* -- times -------------------------------------------------------------------------------------------------------- */

  let ahead = 0; // seconds by which this clock is ahead of the store's

  function span(seconds) {
    const whole = Math.max(0, seconds);
    if (whole < 60) return Math.floor(whole) + "s";
    if (whole < 3600) return Math.floor(whole / 60) + "m";
    if (whole < 172800) return Math.floor(whole / 3600) + "h";
    return Math.floor(whole / 86400) + "d";
  }

  function longSpan(seconds) {
    const whole = Math.floor(Math.max(0, seconds));
    if (whole < 60) return whole + "s";
    if (whole < 3600) return Math.floor(whole / 60) + "m " + (whole % 60) + "s";
    if (whole < 172800) return Math.floor(whole / 3600) + "h " + Math.floor((whole % 3600) / 60) + "m";
    return Math.floor(whole / 86400) + "d " + Math.floor((whole % 86400) / 3600) + "h";
  }

  function tick() {
    const now = Date.now() / 1000 - ahead;
    for (const time of $$("time[data-at]")) {
      const past = now - Number(time.dataset.at);
      let text;
      if (time.dataset.form === "for") text = longSpan(past);
      else if (past < 0) text = "in " + span(-past);
      else if (past < 1) text = "now";
      else text = span(past) + " ago";
      if (time.textContent !== text) time.textContent = text;
    }
  }

  function arrived() {
    const seen = Number(live()?.dataset.seen);
    if (seen) ahead = Date.now() / 1000 - seen;
    tick();
    showLogs();
  }

  /* -- live --------------------------------------------------------------------------------------------------------- */

  const button = $("[data-live]");
  let paused = false;
  let connected = false;
  let away = false;
  let fetching = false;
  let earliest = 0;
  let missed = false;
  let version = "";
  let refreshed = 0;

  function show() {
    if (!button) return;
    const state = paused ? "paused" : connected && !away ? "live" : "offline";
    const words = { live: "Live", paused: "Paused", offline: away ? "Store away" : "Connecting" };
    button.dataset.state = state;
    button.setAttribute("aria-pressed", String(!paused));
    $("span", button).textContent = words[state];
  }

  function busy() {
    const at = document.activeElement;
    if (at && live()?.contains(at) && at.matches("input, textarea, select")) return true;
    if ($(":popover-open") || $("dialog[open]")) return true;
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && live()?.contains(selection.anchorNode));
  }

  function refresh() {
    if (paused || document.hidden || !live() || live().dataset.still !== undefined) return;
    if (fetching || busy() || performance.now() < earliest) {
      missed = true;
      return;
    }
    missed = false;
    fetching = true;
    const began = (refreshed = performance.now());
    const done = () => {
      fetching = false;
      // A slow page is asked for less often: it never takes more than a third of anybody's time.
      earliest = Math.max(began + 900, performance.now() + 2 * (performance.now() - began));
    };
    htmx
      .ajax("GET", location.pathname + location.search, { source: live(), target: live(), swap: "merge" })
      .then(done, done);
  }

  const OPEN = ["running", "fetched", "ready", "waiting", "behind", "scheduled", "blocked", "held", "parked"];
  const MOST = 10000; // counts end there

  function pulse(data) {
    const states = data.states || {};
    const numbers = {
      open: OPEN.reduce((sum, state) => sum + (states[state] || 0), 0),
      failed: (states.failed || 0) + (states.quarantined || 0),
      problems: data.problems || 0,
    };
    for (const place of $$("[data-pulse]")) {
      const name = place.dataset.pulse;
      const value = name.startsWith("states.") ? states[name.slice(7)] || 0 : numbers[name] || 0;
      const more = value >= MOST ? MOST.toLocaleString("en-US") + "+" : value.toLocaleString("en-US");
      const text = value ? more : place.dataset.zero || "";
      if (place.textContent !== text) place.textContent = text;
    }
  }

  // Browsers allow a host few connections, and every stream takes one: windows that nobody sees have none.
  let stream = null;

  function hush() {
    if (stream) stream.close();
    stream = null;
    connected = false;
    show();
  }

  function listen() {
    if (!button || stream || document.hidden) return;
    stream = new EventSource(root.dataset.stream);
    stream.addEventListener("open", () => {
      connected = true;
      show();
    });
    stream.addEventListener("pulse", (event) => {
      connected = true;
      away = false;
      show();
      if (paused) return;
      const data = JSON.parse(event.data);
      pulse(data);
      // Where no figure changed, little else can have; it is looked at all the same, but not so often.
      const same = data.version && data.version === version && !missed;
      version = data.version;
      // A log grows without any figure changing.
      if (!same || $("[data-log-live]") || performance.now() - refreshed > 2500) refresh();
    });
    stream.addEventListener("away", () => {
      away = true;
      show();
    });
    stream.addEventListener("error", () => {
      connected = false;
      show();
      if (!stream || stream.readyState !== EventSource.CLOSED) return; // it tries again by itself
      hush();
      setTimeout(listen, 3000);
    });
  }

  addEventListener("pagehide", hush);
  addEventListener("pageshow", listen);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hush();
    else listen();
    refresh();
  });

  if (button) {
    button.addEventListener("click", () => {
      paused = !paused;
      show();
      if (!paused) refresh();
    });
  }
  document.addEventListener("toggle", () => missed && refresh(), true);
  document.addEventListener("htmx:afterRequest", (event) => {
    const status = event.detail.xhr ? event.detail.xhr.status : 0;
    away = status === 503;
    if (status === 404 && event.detail.elt === live()) gone();
    show();
  });

  // What was fetched may come too late: for another address, or while somebody has begun to do something.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.requestConfig.elt !== live()) return;
    const asked = event.detail.pathInfo.requestPath;
    if (asked === location.pathname + location.search && !busy() && !paused) return;
    event.detail.shouldSwap = false;
    missed = true;
  });

  // Filters that are empty are no part of an address, and the tabs go on with those that are not.
  document.addEventListener("htmx:configRequest", (event) => {
    for (const [name, value] of Array.from(event.detail.formData.entries())) {
      if (!value) event.detail.formData.delete(name);
    }
  });
  document.addEventListener("htmx:replacedInHistory", () => {
    const asked = new URL(location.href).searchParams;
    for (const tab of $$("[data-tabs] a")) {
      const link = new URL(tab.href);
      for (const field of $$(".filter input[type=search]")) {
        if (asked.get(field.name)) link.searchParams.set(field.name, asked.get(field.name));
        else link.searchParams.delete(field.name);
      }
      tab.href = link.pathname + link.search;
    }
  });

  function gone() {
    live().dataset.still = "";
    const note = $("#gone");
    if (note) note.hidden = false;
  }

  /* -- theme, rows, keys, charts ------------------------------------------------------------------------------------ */

  const theme = $("[data-theme-toggle]");
  if (theme) {
    theme.addEventListener("click", () => {
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      const now = root.dataset.theme || (dark ? "dark" : "light");
      root.dataset.theme = now === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("interlock-theme", root.dataset.theme);
      } catch (refused) {
        /* it holds for this page, then */
      }
    });
  }

  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-href]");
    if (!row || event.target.closest("a, button, input, select, summary") || event.button) return;
    if (!document.getSelection().isCollapsed) return;
    if (event.metaKey || event.ctrlKey) open(row.dataset.href, "_blank", "noopener");
    else location.href = row.dataset.href;
  });

  document.addEventListener("animationend", (event) => {
    const row = event.animationName === "fresh" ? event.target.closest("tr") : null;
    if (row) row.classList.remove("fresh");
  });

  function step(by) {
    const rows = $$("tr[data-href]");
    if (!rows.length) return;
    const now = rows.findIndex((row) => row.classList.contains("at"));
    const next = rows[Math.min(rows.length - 1, Math.max(0, now < 0 ? 0 : now + by))];
    for (const row of rows) row.classList.toggle("at", row === next);
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, textarea, select");
    if (typing) {
      if (event.key === "Escape" && !$(":popover-open")) typing.blur();
      return;
    }
    if ($(":popover-open")) return;
    if (event.key === "/") {
      const filter = $("[data-filter]");
      if (!filter) return;
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === "j" || event.key === "k") {
      step(event.key === "j" ? 1 : -1);
    } else if (event.key === "Enter" && !event.target.closest("a, button, summary")) {
      const row = $("tr.at[data-href]");
      if (row) location.href = row.dataset.href;
    }
  });

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);

  function point(event) {
    const over = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !over;
    if (!over) return;
    tip.textContent = over.dataset.tip;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, event.clientY - box.height - 10) + "px";
  }
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerleave", () => (tip.hidden = true));

  // A sent form is sent once.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    for (const one of $$("button", event.target)) setTimeout(() => (one.disabled = true));
  });

  // What was said once is not said again after a reload.
  const here = new URL(location.href);
  if (here.searchParams.has("said")) {
    for (const name of ["said", "state", "changed", "unchanged", "left"]) here.searchParams.delete(name);
    history.replaceState(history.state, "", here);
  }

  // On a phone the sections are a strip that scrolls; the one that is open is in sight.
  const current = $(".nav a[aria-current]");
  if (current) current.parentElement.scrollLeft = current.offsetLeft - innerWidth / 3;

  $$("[data-log]").forEach(toEnd);
  arrived();
  show();
  setInterval(tick, 1000);
  listen();
})();
