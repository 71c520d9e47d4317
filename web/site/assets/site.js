// What pages do besides being read: search, sorting, filters, the theme. All of it works from disk, without a server, and
// every page is complete without it.
"use strict";
(() => {
  const root = document.currentScript.dataset.root;
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const h = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // The list of pages is open where there is room for it.
  const menu = $("details.menu"), narrow = matchMedia("(max-width: 50rem)");
  const openMenu = () => { menu.open = !narrow.matches; };
  openMenu();
  narrow.addEventListener("change", openMenu);
  $("nav.pages [aria-current]")?.scrollIntoView({ block: "nearest" });

  // Theme
  const theme = $("#theme"), system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const showTheme = () => {
    theme.textContent = dark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
  };
  theme.hidden = false;
  showTheme();
  system.addEventListener("change", showTheme);
  theme.addEventListener("click", () => {
    const chosen = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    try { localStorage.setItem("ropeway-theme", chosen); } catch { /* for this page, then */ }
    showTheme();
  });

  // Headings and code
  for (const heading of $$("article :is(h2, h3, h4)[id]")) {
    heading.append(h("a", { className: "anchor", href: "#" + heading.id, ariaLabel: "Link to this section" }, "#"));
  }
  for (const block of $$("body:not(.source) .code")) {
    const button = h("button", { className: "copy", type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText($("pre", block).textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren($("pre", block));
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    block.append(button);
  }

  // Tables: numbers with their units, or words.
  const units = {
    ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, KB: 1e3, MB: 1e6, GB: 1e9,
  };
  const number = (text) => {
    const m = /^[<>=~ ]*(-?\d[\d,]*(?:\.\d+)?)(?:\s*([A-Za-zµ]+))?/.exec(text);
    return m ? Number(m[1].replaceAll(",", "")) * (units[m[2]] ?? 1) : NaN;
  };
  const words = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => {
    const x = number(a), y = number(b);
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return Number.isNaN(x) ? words.compare(a, b) : x - y || words.compare(a, b);
  };
  for (const table of $$("table.sortable")) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 3) continue;
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = h("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down < 0 ? "descending" : "ascending");
        const key = (row) => row.cells[column]?.textContent.trim() ?? "";
        const sum = (row) => row.cells[0]?.textContent.trim() === "all";
        const rows = [...body.rows].sort((a, b) => {
          if (sum(a) !== sum(b)) return sum(a) ? 1 : -1; // a total stays at the end
          const x = key(a), y = key(b);
          if (!x !== !y) return x ? -1 : 1; // and so do cells with nothing in them
          return down * compare(x, y);
        });
        body.append(...rows);
      });
    });
  }
  for (const input of $$("input[data-filter]")) {
    const rows = [...document.getElementById(input.dataset.filter).tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const status = $("[role=status]", input.closest(".filter"));
    const filter = () => {
      const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        row.hidden = !wanted.every((word) => texts[i].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      status.textContent = wanted.length ? `${shown} of ${rows.length}` : "";
    };
    input.closest(".filter").hidden = false;
    input.addEventListener("input", filter);
    filter();
  }

  // Search. The index is a script, which pages from disk may load; it is loaded when it is first needed.
  const input = $("#search"), results = $("#results"), found = $("#found");
  input.hidden = false;
  input.nextElementSibling.hidden = false;
  let index, loading;
  /** apart is a name with spaces between its words: aclrtMemcpyAsync is "aclrt Memcpy Async". */
  const apart = (name) => name.replace(/([a-z0-9])([A-Z])/g, "$1 $2");
  const load = () => loading ??= new Promise((done, failed) => {
    const script = h("script", { src: root + "search.js" });
    script.addEventListener("load", () => {
      index = window.ropewaySearch.map((e) => ({
        ...e, r: e.r ?? 0, names: [e.t, e.a ?? "", apart(e.t)].map((name) => name.toLowerCase()),
        section: (e.s ?? "").toLowerCase(), text: (e.x ?? "").toLowerCase(),
      }));
      done();
    });
    script.addEventListener("error", () => failed(new Error("search.js is missing")));
    document.head.append(script);
  });

  /** inside is how good a match of a word in a text is: the whole, the beginning, a word, the beginning of one, anywhere, nowhere. */
  const inside = (text, word) => {
    const at = text.indexOf(word);
    if (at < 0) return 0;
    if (at === 0) return text.length === word.length ? 8 : 4;
    const begins = "(?:^|[^a-z0-9])" + word.replace(/[^a-z0-9]/g, "\\$&");
    return new RegExp(begins + "(?![a-z0-9])").test(text) ? 3 : new RegExp(begins).test(text) ? 2 : .2;
  };
  const score = (entry, word) => {
    const title = Math.max(...entry.names.map((name) => inside(name, word)));
    const section = inside(entry.section, word), text = inside(entry.text, word);
    return title * (entry.section ? 3 : 12) + section * 8 + text;
  };

  /** near is a word of the index that differs from one that it has not, in up to two letters. */
  const near = (word) => {
    let best = "", least = word.length < 5 ? 2 : 3;
    for (const entry of index) {
      for (const other of (entry.names.join(" ") + " " + entry.section).split(/[^a-z0-9_]+/)) {
        if (Math.abs(other.length - word.length) < least) {
          const d = distance(word, other, least);
          if (d < least) [best, least] = [other, d];
        }
      }
    }
    return best;
  };
  const distance = (a, b, limit) => {
    let last = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (let i = 1; i <= a.length; i++) {
      const row = [i];
      for (let j = 1; j <= b.length; j++) {
        row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      }
      if (Math.min(...row) >= limit) return limit;
      last = row;
    }
    return last[b.length];
  };

  const search = (query) => {
    let asked = query.toLowerCase().split(/[\s()]+/).filter((word) => word.length > 0);
    asked = asked.map((word) => index.some((e) => score(e, word) > 0) ? word : near(word) || word);
    const hits = [];
    const phrase = asked.join(" ");
    for (const entry of index) {
      let sum = 0;
      for (const word of asked) {
        const s = score(entry, word);
        if (!s) { sum = 0; break; }
        sum += s;
      }
      if (sum && asked.length > 1 && (entry.names[0] + " " + entry.section + " " + entry.text).includes(phrase)) sum *= 2;
      if (sum) hits.push({ entry, sum: sum / (1 + entry.r * .3) });
    }
    hits.sort((a, b) => b.sum - a.sum || a.entry.t.length - b.entry.t.length || words.compare(a.entry.p, b.entry.p));
    return { asked, hits };
  };

  /** marked is text with the words that were looked for marked. */
  const marked = (text, asked) => {
    const at = new RegExp("(" + asked.map((word) => word.replace(/[^a-z0-9]/gi, "\\$&")).join("|") + ")", "gi");
    return text.split(at).map((part, i) => i % 2 ? h("mark", {}, part) : part);
  };
  const excerpt = (entry, asked) => {
    const text = entry.x ?? "";
    const at = Math.max(0, Math.min(...asked.map((word) => entry.text.indexOf(word)).filter((i) => i >= 0), Infinity));
    const start = Number.isFinite(at) && at > 60 ? text.indexOf(" ", at - 60) + 1 : 0;
    return (start > 0 ? "… " : "") + text.slice(start, start + 200);
  };

  let selected = -1;
  const select = (i) => {
    const links = $$("a", results);
    links[selected]?.setAttribute("aria-selected", "false");
    selected = links.length ? (i + links.length) % links.length : -1;
    input.removeAttribute("aria-activedescendant");
    if (selected >= 0) {
      links[selected].setAttribute("aria-selected", "true");
      links[selected].scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", links[selected].id);
    }
  };
  const close = () => {
    results.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    selected = -1;
  };
  const most = 20;
  const show = async () => {
    const query = input.value.trim();
    if (!query) { close(); found.textContent = ""; return; }
    try {
      await load();
    } catch (error) {
      results.replaceChildren(h("p", { className: "none" }, error.message));
      results.hidden = false;
      return;
    }
    if (query !== input.value.trim()) return; // there is a newer one
    const { asked, hits } = search(query);
    results.replaceChildren(...hits.slice(0, most).map(({ entry }, i) => {
      const link = h("a", { href: root + entry.p, id: "result" + i },
        h("b", {}, ...marked(entry.s || entry.t, asked)), entry.s ? h("span", { className: "in" }, " · " + entry.t) : "",
        h("p", {}, ...marked(excerpt(entry, asked), asked)));
      link.setAttribute("role", "option");
      link.setAttribute("aria-selected", "false");
      link.tabIndex = -1;
      return link;
    }));
    const count = hits.length === 1 ? "1 result" : `${hits.length} results`;
    found.textContent = count + (hits.length > most ? `, the first ${most} are shown` : "");
    if (!hits.length) results.append(h("p", { className: "none" }, `Nothing has “${query}”.`));
    results.hidden = false;
    results.scrollTop = 0;
    input.setAttribute("aria-expanded", "true");
    selected = -1;
    if (hits.length) select(0);
  };
  input.addEventListener("focus", () => load().catch(() => {}));
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves && !results.hidden) {
      event.preventDefault();
      select(selected + moves[event.key]);
    } else if (event.key === "Enter" && selected >= 0) {
      event.preventDefault();
      const to = $$("a", results)[selected];
      close();
      location.href = to.href;
    } else if (event.key === "Escape") {
      if (results.hidden) input.blur();
      close();
    }
  });
  results.addEventListener("click", close);
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) close(); });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    const control = event.ctrlKey || event.metaKey;
    if (event.key === "/" && !typing && !control || event.key === "k" && control) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });
})();
