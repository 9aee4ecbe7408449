/* Corrects a field by a click on a recorded page. The page is drawn anew in a frame without scripts: its elements come as names and texts, never as markup, so that nothing of the shop runs or is loaded. */
(function () {
  "use strict";

  const {h, plain, table, count, post, say} = window.crawlsTab;
  // What the server names; anything else becomes a block.
  const NAMES = new Set(("div span h1 h2 h3 h4 h5 h6 p ul ol li dl dt dd table thead tbody tfoot tr td th caption strong b em i del ins s small sub sup pre blockquote br hr").split(" "));
  const FOUND_MAX = 20, OWN_TEXT_MAX = 200, ASKING_MS = 90000, AGAIN_MS = 300;
  const LOOK = `
    html { font: 14px/1.45 system-ui, sans-serif; }
    body { margin: 0.75rem; overflow-wrap: anywhere; }
    [data-element] { cursor: pointer; border-radius: 2px; }
    [data-element]:not(:has([data-element]:hover)):hover { outline: 2px solid Highlight; }
    .picked { outline: 3px solid Highlight !important; outline-offset: 1px; }
    table { border-collapse: collapse; } td, th { padding: 0.1rem 0.4rem; text-align: start; vertical-align: top; }`;

  /* Draws [depth, name, number] and [depth, text] into the frame's body. */
  function drawPage(frame, rows, pick) {
    const inner = frame.contentDocument, sheet = new frame.contentWindow.CSSStyleSheet(), nodes = new Map();
    sheet.replaceSync(LOOK);
    inner.adoptedStyleSheets = [sheet];
    const colours = getComputedStyle(frame.parentElement);
    inner.documentElement.style.colorScheme = document.documentElement.dataset.bsTheme === "dark" ? "dark" : "light";
    inner.body.style.color = colours.color;
    const above = [inner.body];
    for (const [depth, name, number] of rows) {
      above.length = Math.min(above.length, depth + 1);
      const parent = above[above.length - 1];
      if (number === undefined) { parent.append(inner.createTextNode(plain(name)), " "); continue; }
      const made = inner.createElement(NAMES.has(name) ? name : "div");
      made.dataset.element = number;
      nodes.set(number, made);
      parent.append(made);
      above.push(made);
    }
    inner.addEventListener("click", (event) => {
      const chosen = event.target.closest?.("[data-element]");
      event.preventDefault();
      if (chosen) pick(Number(chosen.dataset.element));
    });
    return nodes;
  }

  /* `source`: {survey} or {site}. `read()`: the text of the definition, `write(text)`: replaces it. */
  function make({source, read, write}) {
    const pages = h("select", {class: "form-select form-select-sm", "aria-label": "Page"}), fields = h("select", {class: "form-select form-select-sm", "aria-label": "Field"});
    const search = h("input", {class: "form-control form-control-sm", type: "search", placeholder: "or type a text of the page", "aria-label": "Text on the page", autocomplete: "off", maxlength: "100"});
    const hits = h("div", {class: "tab-row", id: "picker-hits"}), shown = h("div", {class: "tab-frame"}), told = h("div", {id: "picker-proposals", "aria-live": "polite"});
    const form = h("div", {class: "tab-form d-none"}, h("p", {class: "crawl-detail"}, "Choose a field, then click where the page shows it. The page is drawn without its look, pictures and scripts."),
      h("div", {class: "tab-row"}, h("label", {class: "tab-field"}, h("span", {}, "Field"), fields), h("label", {class: "tab-field"}, h("span", {}, "Page"), pages), h("label", {class: "tab-field"}, h("span", {}, "Find"), search)), hits, told, shown);
    const open = h("button", {type: "button", class: "btn btn-sm btn-outline-primary", id: "picker-open"}, "Correct a field by a click");
    let rows = [], nodes = new Map(), turn = 0;

    async function ask(more) {
      const mine = ++turn;
      told.replaceChildren(h("p", {class: "crawl-detail"}, "Reading the recorded pages…"));
      const until = Date.now() + ASKING_MS, asked = {...source, text: read(), ...more};
      let answer = await post("pick", asked);
      while (answer.busy && Date.now() < until && mine === turn) {
        await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
        answer = await post("pick", asked);
      }
      if (mine !== turn) return null;
      told.replaceChildren(answer.error ? h("p", {class: "text-danger"}, plain(answer.error)) : "");
      return answer.error ? null : answer;
    }

    async function readAll() {
      const answer = await ask({});
      if (!answer) return false;
      rows = answer.pages;
      const chosen = fields.value, page = pages.value;
      fields.replaceChildren(...answer.fields.map((name) => h("option", {value: name}, name)), ...answer.more.map((name) => h("option", {value: name}, `${name} (new)`)));
      pages.replaceChildren(...rows.map((row, i) => h("option", {value: String(i + 1)}, `${i + 1}: ${plain(row.values.title || row.url).slice(0, 70)}`)));
      if (chosen) fields.value = chosen;
      if (page) pages.value = page;
      showValues();
      return true;
    }

    function showValues() {
      const name = fields.value, read = rows.filter((row) => row.values[name] !== undefined).length;
      told.replaceChildren(h("p", {class: "tab-label"}, `${name}: read on ${count(read)} of ${count(rows.length)} pages`),
        table([["Page", "wide"], ["Value now", "wide"]], rows.map((row) => [plain(row.values.title || row.url), plain(row.values[name] ?? "–")]), "Values now"));
    }

    async function showPage() {
      hits.replaceChildren();
      const answer = await ask({page: Number(pages.value)});
      if (!answer) return;
      const frame = h("iframe", {sandbox: "allow-same-origin", title: `The page ${plain(answer.url)}`, tabindex: "-1", srcdoc: "<!doctype html><title>page</title>", referrerpolicy: "no-referrer"});
      frame.addEventListener("load", () => { nodes = drawPage(frame, answer.elements, pick); frame.dataset.elements = String(nodes.size); }, {once: true});
      shown.replaceChildren(...answer.cut ? [h("p", {class: "crawl-detail"}, "The page is long; this is its beginning.")] : [], frame);
      showValues();
    }

    async function pick(number) {
      for (const [at, node] of nodes) node.classList.toggle("picked", at === number);
      const name = fields.value, answer = await ask({page: Number(pages.value), element: number, field: name});
      if (!answer) return;
      told.replaceChildren(...answer.proposals.map((one, i) => proposal(name, one, i, answer.urls.length)));
      told.scrollIntoView({block: "nearest"});
    }

    function proposal(name, one, at, all) {
      const use = h("button", {type: "button", class: "btn btn-sm btn-primary"}, "Use this source");
      use.addEventListener("click", async () => {
        write(one.text);
        say(`${name} is read from ${plain(one.source)} in the text below. Save keeps it.`, true);
        await readAll();
      });
      return h("details", {class: "crawl-dead", open: at === 0 ? "" : null}, h("summary", {}, h("span", {class: "crawl-dead-line"}, h("span", {class: `crawl-badge badge-${one.pages === all ? "good" : "waiting"}`}, `${count(one.pages)} of ${count(all)} pages`), h("code", {}, plain(one.source)))),
        h("div", {class: "crawl-dead-body"}, use, table([["Page", "wide"], ["Now", "wide"], ["With this source", "wide"]],
          rows.map((row, i) => [plain(row.values.title || row.url), plain(row.values[name] ?? "–"), h(row.values[name] === one.values[i] ? "span" : "b", {}, plain(one.values[i] ?? "–"))]), `Values of ${plain(one.source)}`)));
    }

    function find() {
      const wanted = search.value.trim().toLowerCase();
      const own = (node) => [...node.childNodes].filter((each) => each.nodeType === 3).map((each) => each.data).join("").trim();
      const found = wanted ? [...nodes].map(([number, node]) => [number, own(node)]).filter(([, text]) => text && text.toLowerCase().includes(wanted)).slice(0, FOUND_MAX) : [];
      hits.replaceChildren(...found.map(([number, text]) => {
        const made = h("button", {type: "button", class: "btn btn-sm btn-outline-primary"}, text.slice(0, OWN_TEXT_MAX));
        made.addEventListener("click", () => pick(number));
        return made;
      }));
    }

    open.addEventListener("click", async () => {
      open.disabled = true;
      form.classList.remove("d-none");
      if (await readAll()) await showPage();
      open.disabled = false;
      open.textContent = "Read the pages again";
    });
    pages.addEventListener("change", showPage);
    fields.addEventListener("change", showValues);
    search.addEventListener("input", find);
    return h("div", {class: "crawl-card tab-form", id: "picker"}, h("h2", {}, "Correct a field"), h("div", {class: "tab-row"}, open), form);
  }

  window.crawlsPicker = make;
}());
