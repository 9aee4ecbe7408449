/* The Crawls tab: asks the API every few seconds and draws what changed. What a shop has sent goes into text nodes only. */
(function () {
  "use strict";

  const page = document.getElementById("crawls-page");
  if (!page) return;
  const {chart, spark, number} = window.crawlCharts;
  const {api, pages, crawl: crawlId, readOnly, mayEdit} = page.dataset;
  // The sums of a site's last thirty days take longer.
  const RUNNING_MS = 3000, QUIET_MS = 10000, SITE_MS = 20000, AWAY_MS = 5000;
  const KEPT = 6, PARTLY_S = 3, CHARTS_FROM = 7;
  const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
  const drawn = new Map();
  // What a plug-in's script gives to `crawlsTab.start`: {address(), draw(data)}.
  let own = null;
  let timer = null, asking = false, again = false, everyMs = RUNNING_MS;

  // --- small things

  function plain(text) {
    return String(text ?? "").replace(STEERING, "\ufffd");
  }

  /* A command to copy: the words that a shop chose are quoted for a shell, as `shlex.quote` does. */
  function command(fixed, ...words) {
    return [fixed, ...words.map((word) => plain(word)).map((word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)].join(" ");
  }

  function h(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === "on") element.addEventListener("click", value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
    }
    for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) element.append(child);
    return element;
  }

  /* A message with a button to copy each command that it names, which is quoted already: a shell sees one command in it. */
  const COMMAND = /(`scraper(?: (?:[\w@%+=:,./-]+|'[^'`\n]*'(?:"'"'[^'`\n]*')*))+`)/;
  function message(text) {
    return plain(text).split(COMMAND).map((part, i) => {
      if (i % 2 === 0) return part;
      const shown = part.slice(1, -1), copied = h("button", {type: "button", class: "btn btn-link btn-sm tab-copy", "data-key": `copy-${shown}`, "aria-label": `Copy ${shown}`}, "Copy");
      copied.addEventListener("click", async () => {
        const code = copied.previousElementSibling, range = document.createRange();
        range.selectNodeContents(code);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        // Without TLS a browser has no clipboard for pages other than those of this machine.
        try { await navigator.clipboard.writeText(shown); copied.textContent = "Copied"; } catch { copied.textContent = document.execCommand("copy") ? "Copied" : "Selected"; }
      });
      return h("span", {}, h("code", {}, shown), " ", copied);
    });
  }

  function count(value) {
    return Number(value).toLocaleString("en");
  }

  function rate(value) {
    return value >= 10 ? count(Math.round(value)) : number(value);
  }

  function size(bytes) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let i = 0;
    for (; bytes >= 1000 && i < units.length - 1; i++) bytes /= 1000;
    return `${bytes.toLocaleString("en", {maximumFractionDigits: bytes < 10 && i ? 1 : 0})} ${units[i]}`;
  }

  function seconds(value) {
    if (value === null || value === undefined) return "–";
    return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toLocaleString("en", {maximumFractionDigits: 1})} s`;
  }

  function duration(total) {
    const s = Math.round(total), days = Math.floor(s / 86400), hours = Math.floor(s / 3600) % 24, minutes = Math.floor(s / 60) % 60;
    if (days) return `${days} d ${hours} h`;
    if (hours) return `${hours} h ${minutes} min`;
    return minutes ? `${minutes} min ${s % 60} s` : `${s} s`;
  }

  function zoneName(date) {
    return new Intl.DateTimeFormat([], {timeZoneName: "short"}).formatToParts(date || new Date()).find((part) => part.type === "timeZoneName").value;
  }

  function when(iso, withDay) {
    if (!iso) return "–";
    const date = new Date(iso), today = !withDay && new Date().toDateString() === date.toDateString();
    const time = date.toLocaleTimeString([], {hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit"});
    return h("time", {datetime: iso, title: `${date.toLocaleString([], {hourCycle: "h23"})} ${zoneName(date)}`},
             today ? time : `${date.toLocaleDateString([], {month: "short", day: "numeric"})} ${time.slice(0, 5)}`);
  }

  function link(url) {
    const text = plain(url);
    return /^https?:\/\//i.test(url) ? h("a", {href: url, target: "_blank", rel: "noopener noreferrer nofollow", class: "url"}, text)
                                     : h("span", {class: "url"}, text);
  }

  /* Draws a section where what it shows has changed; what is open or focused in it stays so. */
  function section(id, data, make) {
    const told = JSON.stringify(data), box = document.getElementById(id);
    if (!box || drawn.get(id) === told) return;
    drawn.set(id, told);
    const open = new Set([...box.querySelectorAll("details[open]")].map((each) => each.dataset.key));
    const controls = () => [...box.querySelectorAll("a[href], button, input, select, summary, [tabindex]")];
    const at = controls().indexOf(document.activeElement), key = document.activeElement?.dataset.key;
    box.replaceChildren(...[make(data)].flat().filter(Boolean));
    for (const each of box.querySelectorAll("details")) if (open.has(each.dataset.key)) each.open = true;
    /* What has no key, as the region of a table, is known by its place. */
    if (at >= 0) (key ? controls().find((each) => each.dataset.key === key) : controls()[at])?.focus();
  }

  function card(title, aside, ...children) {
    return h("div", {class: "crawl-card"}, h("h2", {}, title, aside && h("span", {class: "crawl-aside"}, aside)), ...children);
  }

  function table(columns, rows, name) {
    return h("div", {class: "table-responsive", tabindex: "0", role: "region", "aria-label": name},
      h("table", {class: "table table-hover align-middle crawl-table"},
        h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", {scope: "col", class: kind}, title)))),
        h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, i) => h("td", {class: columns[i][1]}, cell)))))));
  }

  function metric(label, value, detail, kind) {
    return h("article", {class: `metric-card ${kind || ""}`}, h("p", {class: "metric-label"}, label),
             h("p", {class: "metric-value"}, value), h("p", {class: "crawl-detail"}, detail || "\u00a0"));
  }

  const PHASES = {planned: "waiting", discovering: "busy", fetching: "busy", paused: "waiting", completed: "good",
                  stopped: "quiet", failed: "bad", skipped: "quiet"};

  function badge(crawl) {
    const dead = crawl.status === "completed" && crawl.failed > 0;
    const waits = crawl.state === "waiting" || crawl.state === "failing";
    const phase = waits ? stateBadge(crawl.state) : h("span", {class: `crawl-badge badge-${dead ? "waiting" : PHASES[crawl.phase] || "quiet"}`}, crawl.ending || crawl.phase);
    if (!crawl.suspect) return phase;
    return h("span", {}, phase, " ", h("span", {class: "crawl-badge badge-bad", title: `scraper report ${crawl.id} says why`}, "suspect"));
  }

  function bar(label, done, total, unknown) {
    const share = total ? done / total : 0;
    const fill = h("div", {class: "progress-bar"});
    fill.style.width = `${(share * 100).toFixed(1)}%`;
    return h("div", {class: "crawl-bar"},
      h("div", {class: "crawl-bar-label"}, h("span", {}, label),
        h("span", {class: "num"}, `${count(done)} / ${count(total)}${unknown ? " so far" : ""}`)),
      h("div", {class: "progress", role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": total,
                "aria-valuenow": done}, fill));
  }

  function bars(crawl) {
    const open = crawl.discovery_done < crawl.discovery_total && crawl.active_now;
    return [bar("Discovery", crawl.discovery_done, crawl.discovery_total, open),
            bar("Products", crawl.product_done, crawl.product_total, open)];
  }

  const COUNTS = [["ok", "good"], ["unchanged", "good"], ["gone", "page"], ["dead", "bad"], ["invalid", "bad"], ["dropped", "quiet"]];

  function chips(crawl) {
    return h("div", {class: "crawl-chips"}, COUNTS.filter(([name]) => crawl[name] || name === "ok").map(([name, tone]) =>
      h("span", {class: `chip chip-${tone}`}, `${name} `, h("b", {}, count(crawl[name])))));
  }

  function left(crawl) {
    if (crawl.phase === "discovering") return "discovering";
    return crawl.left === "–" || !crawl.left ? "–" : crawl.left;
  }

  const active = (crawl) => crawl.status === "running" || crawl.status === "planned";

  // --- the fleet

  const STATES = ["failed", "suspect", "waiting", "failing", "dead pages", "paused", "running", "planned", "never crawled", "stopped",
                  "skipped", "completed"];
  const TONES = {failed: "bad", suspect: "bad", waiting: "waiting", failing: "waiting", "dead pages": "waiting", paused: "waiting",
                 running: "busy", planned: "quiet", "never crawled": "quiet", stopped: "quiet", skipped: "quiet", completed: "good"};
  const SORTS = [["", "Sort: default"], ["worst", "Worst first"], ["site", "Site"], ["rate", "Pages/s"], ["pages", "Pages done"],
                 ["failed", "Failed"], ["newest", "Newest first"]];
  const ROWS = 50;
  const filters = document.getElementById("filters");
  const wanted = new URLSearchParams(location.search);
  const ofProducts = Boolean(document.getElementById("products")), ofSite = Boolean(document.getElementById("days"));
  const TONES_OF_PRICES = ["tone-rate", "tone-page-0", "tone-others"];
  const PRODUCT_SORTS = [["", "By id"], ["title", "By title"], ["name", "By name"], ["price", "Cheapest first"], ["-price", "Most expensive first"],
                         ["-changed_at", "Changed last"]];

  function query() {
    const asked = new URLSearchParams(ofProducts ? {} : {limit: ROWS});
    for (const name of ["site", "id", "show", "search", "state", "queue", "tag", "sort", "page"]) if (wanted.get(name)) asked.set(name, wanted.get(name));
    return asked;
  }

  function want(changes) {
    for (const [name, value] of Object.entries({page: "", ...changes})) value ? wanted.set(name, value) : wanted.delete(name);
    history.replaceState(null, "", `${location.pathname}${wanted.size ? `?${wanted}` : ""}`);
    showWanted();
    refresh();
  }

  function options(name, choices) {
    const select = filters.elements[name];
    const value = wanted.get(name) || "";
    const all = choices.some(([choice]) => choice === value) ? choices : [...choices, [value, value]];
    if (drawn.get(`options-${name}`) !== JSON.stringify(all)) {
      drawn.set(`options-${name}`, JSON.stringify(all));
      select.replaceChildren(...all.map(([choice, text]) => h("option", {value: choice}, plain(text))));
    }
    select.value = value;
  }

  function showWanted() {
    if (ofProducts) {
      if (document.activeElement !== filters.elements.search) filters.elements.search.value = wanted.get("search") || "";
      options("sort", PRODUCT_SORTS);
      filters.classList.toggle("d-none", wanted.has("id"));
      return;
    }
    filters.elements.show.value = wanted.get("show") || "sites";
    if (document.activeElement !== filters.elements.search) filters.elements.search.value = wanted.get("search") || "";
    options("state", [["", "All states"], ...STATES.map((state) => [state, state])]);
    options("sort", SORTS);
  }

  if (filters) {
    let typing = null;
    filters.addEventListener("submit", (event) => event.preventDefault());
    filters.addEventListener("input", (event) => {
      clearTimeout(typing);
      const all = () => Object.fromEntries([...new FormData(filters)].map(([name, value]) => [name, name === "show" && value === "sites" ? "" : value.trim()]));
      typing = setTimeout(() => want(all()), event.target.name === "search" ? 250 : 0);
    });
    showWanted();
  }

  function stateBadge(state) {
    return h("span", {class: `crawl-badge badge-${TONES[state] || "quiet"}`}, plain(state));
  }

  function fetched(crawl) {
    const text = `${count(crawl.done)} / ${count(crawl.total)}${crawl.phase === "discovering" ? "+" : ""}`;
    if (crawl.fresh && crawl.fresh === crawl.product_done) return h("span", {class: "text-warning", title: `${text} pages`}, `0 prices read, ${count(crawl.fresh)} not due`);
    return crawl.fresh ? h("span", {title: `${text} pages`}, `fetched ${count(crawl.done - crawl.fresh)}, not due ${count(crawl.fresh)}`) : text;
  }

  function fleetRow(row) {
    const crawl = row.id !== null, runs = crawl && active(row), dash = h("span", {class: "fleet-dash"}, "–");
    const name = h("a", {href: siteAddress(row.site), "data-key": `site-${plain(row.site)}`}, plain(row.site));
    const number = crawl && h("a", {class: "crawl-aside", href: `${pages}/${row.id}`, "data-key": `crawl-${row.id}`, "aria-label": `Crawl ${row.id} of ${plain(row.site)}`}, String(row.id));
    return h("tr", {"data-site": plain(row.site), "data-crawl": row.id},
      h("td", {class: "fleet-site"}, name, " ", number),
      h("td", {class: "fleet-state"}, h("div", {class: "fleet-line"}, stateBadge(row.state), h("span", {class: "fleet-why", title: plain(row.why)}, plain(row.why)))),
      h("td", {class: "num fleet-pages"}, crawl ? [fetched(row), h("span", {class: "fleet-word"}, " pages"), row.coverage && row.coverage.products < row.coverage.expected && h("div", {class: "crawl-detail", title: plain(row.coverage.evidence)}, `found ${count(row.coverage.products)} of ${count(row.coverage.expected)}`)] : dash.cloneNode(true)),
      h("td", {class: "num fleet-failed"}, crawl ? [count(row.failed), h("span", {class: "fleet-word"}, " failed")] : dash),
      h("td", {class: "num fleet-wide"}, runs ? rate(row.recent_per_s) : "", runs && row.spark.some((value) => value > 0) ? spark(row.spark, `crawl ${row.id}: pages a second`) : ""),
      h("td", {class: "num fleet-left"}, !runs ? "–" : row.phase === "discovering" ? h("span", {title: "discovering: the total is not known yet"}, "–") : left(row)),
      h("td", {class: "fleet-wide"}, crawl ? when(row.started_at || row.created_at) : "–"),
      h("td", {class: "fleet-wide"}, row.next_slot ? h("span", {title: `${plain(row.schedule)}, ${plain(row.timezone)}`}, when(row.next_slot, true)) : "–"));
  }

  function heading(text, kind, sort) {
    const now = wanted.get("sort") || (wanted.get("show") === "crawls" ? "newest" : "worst");
    return h("th", {scope: "col", class: kind, "aria-sort": sort && now === sort ? (sort === "site" || sort === "worst" ? "ascending" : "descending") : null},
      sort ? h("button", {type: "button", class: "fleet-sort", "data-key": `sort-${sort}`, on: () => want({sort})}, text) : text);
  }

  function drawList(data) {
    const {totals} = data, running = totals.crawls;
    options("queue", [["", "All queues"], ...data.queues.map((name) => [name, name])]);
    options("tag", [["", "All tags"], ...data.tags.map((name) => [name, name])]);
    filters.elements.tag.classList.toggle("d-none", !data.tags.length && !wanted.get("tag"));
    const trouble = ["failed", "suspect", "waiting", "failing", "dead pages"].reduce((sum, state) => sum + (totals.states[state] || 0), 0);
    section("summary", [totals, data.watched], () => running ? [
      metric("Crawls running", count(running), `of ${count(totals.sites)} sites`, "metric-card-active"),
      metric("Pages a second", rate(totals.pages_per_s), "over the last half minute"),
      metric("Pages done", count(totals.done), `of ${count(totals.total)} so far${totals.not_due ? `; ${count(totals.not_due)} were not due` : ""}`, "metric-card-success"),
      metric("Dead and invalid", count(totals.failed), "in running crawls", "metric-card-danger"),
    ] : [
      metric("Crawls running", "0", `of ${count(totals.sites)} sites`, "metric-card-active"),
      metric("Need you", count(trouble), trouble ? "see the first rows" : "nothing is wrong", trouble ? "metric-card-danger" : "metric-card-success"),
      metric("Products watched", count(data.watched.products), "in the newest complete crawls", "metric-card-success"),
      metric(page.dataset.drops ? h("a", {href: page.dataset.drops, "data-key": "drops"}, "Price changes today") : "Price changes today", count(data.watched.repriced), "since midnight UTC"),
    ]);
    section("states", [totals.states, wanted.get("state")], () => Object.entries(totals.states).map(([state, sites]) =>
      h("button", {type: "button", class: `crawl-badge badge-${TONES[state] || "quiet"}`, "aria-pressed": String(wanted.get("state") === state), "data-key": `state-${state}`,
                   on: () => want({state: wanted.get("state") === state ? "" : state, show: ""})}, `${plain(state)} ${count(sites)}`)));
    const zone = zoneName();
    section("fleet", [data.crawls, String(wanted)], () => data.crawls.length ? h("div", {class: "crawl-card fleet-card"},
      h("table", {class: "table table-hover align-middle crawl-table fleet-table"},
        h("thead", {}, h("tr", {}, heading("Site", "fleet-site", "site"), heading("State", "fleet-state", "worst"), heading("Pages", "num fleet-pages", "pages"),
          heading("Failed", "num fleet-short", "failed"), heading("Pages/s", "num fleet-wide", "rate"), heading("Left", "num fleet-short"),
          heading(`Began, ${zone}`, "fleet-wide fleet-time", "newest"), heading(`Next, ${zone}`, "fleet-wide fleet-time"))),
        h("tbody", {}, data.crawls.map(fleetRow)))) : card("", "", h("p", {class: "crawl-empty"}, totals.sites && query().size > 1
          ? "Nothing matches." : page.dataset.add ? "No site yet." : ["No site is in the database yet. ", h("code", {}, "scraper crawl SITE"), " opens a crawl."])));
    section("add-shops", page.dataset.add, () => page.dataset.add && addShops());
    pager(data.matching, wanted.get("show") === "crawls" ? "crawls" : "sites");
    return running > 0;
  }

  /* Addresses that are typed here are in the form of the next page, which asks before anything is read. */
  function addShops() {
    const addresses = h("textarea", {class: "form-control form-control-sm", rows: "1", "aria-label": "Addresses of shops to add", placeholder: "Addresses of shops, one a line", spellcheck: "false", maxlength: "200000"});
    const form = h("form", {class: "add-shops"}, addresses, h("button", {type: "submit", class: "btn btn-sm btn-outline-primary"}, "Add shops"));
    form.addEventListener("submit", (event) => { event.preventDefault(); location.assign(`${page.dataset.add}#${encodeURIComponent(addresses.value)}`); });
    return form;
  }

  function pager(matching, things) {
    const at = Number(wanted.get("page") || 1), last = Math.max(1, Math.ceil(matching / ROWS));
    section("pager", [matching, at, things], () => [
      h("span", {class: "crawl-detail"}, `${count(matching)} ${things}${last > 1 ? `, page ${count(at)} of ${count(last)}` : ""}`),
      at > 1 && h("button", {type: "button", class: "btn btn-sm btn-outline-primary", "data-key": "previous", on: () => want({page: at > 2 ? String(at - 1) : ""})}, "Previous"),
      at < last && h("button", {type: "button", class: "btn btn-sm btn-outline-primary", "data-key": "next", on: () => want({page: String(at + 1)})}, "Next"),
    ]);
  }

  // --- products

  function siteAddress(site) {
    return `${pages}/sites/${encodeURIComponent(site)}`;
  }

  function address(site, id) {
    return `${pages}/products?${new URLSearchParams(id === undefined ? {site} : {site, id})}`;
  }

  function drawProducts(data) {
    document.getElementById("heading").textContent = plain(data.product ? data.product.title || data.product.id : data.site);
    document.getElementById("of-site").href = address(data.site);
    document.getElementById("the-site").href = siteAddress(data.site);
    if (data.product) return drawProduct(data);
    section("products", data.products, () => card("Products", "", data.products.length ? table(
      [["Id", ""], ["Name", "wide"], ["Price", "num"], ["Stock", ""], [`Changed, ${zoneName()}`, ""], ["", ""]],
      data.products.map((one) => [h("a", {href: address(data.site, one.id), "data-key": `product-${one.id}`}, plain(one.id)), plain(one.title),
        one.prices.map(({field, text}, i) => i ? h("div", {class: "crawl-detail"}, `${plain(field)} ${plain(text)}`) : plain(text)),
        one.stock === null ? "–" : one.stock ? "in stock" : "sold out", when(one.changed_at), one.delisted_at ? stateBadge("delisted") : ""]),
      "Products") : h("p", {class: "crawl-empty"}, "Nothing matches.")));
    pager(data.matching, "products");
    const asked = query();
    asked.delete("page");
    section("export", String(asked), () => ["csv", "jsonl"].map((form) => h("a", {class: "btn btn-sm btn-outline-primary", href: `${api}.${form}?${asked}`, download: "", "data-key": form},
      form === "csv" ? "Export as CSV" : "Export as JSON lines")));
    return false;
  }

  // --- a site

  const DAYS = [["listed", "Products listed"], ["new", "New a day"], ["changed", "Changed a day"], ["delisted", "Delisted a day"],
                ["repriced", "Price changes a day"], ["requests", "Requests a day"], ["bytes", "Data a day, MB"], ["proxy_bytes", "Data by proxies a day, MB"]];

  function drawSite(site) {
    section("actions", [site.state, site.paused, site.running, site.crawl], () => [stateBadge(site.state),
      site.crawl !== null && h("a", {class: "btn btn-sm btn-outline-primary", href: `${pages}/${site.crawl}`, "data-key": "crawl"}, `Crawl ${site.crawl}`),
      h("a", {class: "btn btn-sm btn-outline-primary", href: address(site.site), "data-key": "products"}, "Products"),
      site.paused ? button("Resume site", "resume", {}, "resume") : button("Pause site", "pause", {}, "pause"),
      !site.running && button("Crawl now", "crawl", {}, "crawl-now"),
      page.dataset.repair && TONES[site.state] === "bad" && h("a", {class: "btn btn-sm btn-primary", href: page.dataset.repair, "data-key": "repair"}, page.dataset.repairText)]);
    section("note", [site.why, site.state, site.problems], () => [
      site.why && h("div", {class: `alert ${TONES[site.state] === "bad" ? "alert-danger" : "alert-secondary"}`}, `${plain(site.state)}: `, message(site.why)),
      site.problems.length > 0 && card("The definition's problems", "", h("ul", {class: "crawl-why"}, site.problems.map((line) => h("li", {}, message(line)))))]);
    section("about", [site.schedule, site.next, site.paused, site.tags], () => h("p", {class: "crawl-detail"}, site.paused ? "Paused. " : "",
      site.schedule ? ["Crawled ", h("span", {title: plain(site.schedule)}, plain(site.schedule_text)), ` (${plain(site.timezone)})`] : "Crawled by hand", site.next && [", next ", when(site.next, true), ` ${zoneName(new Date(site.next))}`],
      site.tags.length > 0 && `. Tags: ${plain(site.tags.join(", "))}`));
    section("site-changes", site.changes, () => card("Latest changes", h("a", {href: `${page.dataset.changes}?${new URLSearchParams({site: site.site})}`, "data-key": "feed"}, "Atom feed"),
      site.changes.length ? changesTable(site.changes) : h("p", {class: "crawl-empty"}, "No product has changed lately.")));
    drawDays(site);
    section("site-crawls", site.crawls, () => card("Crawls", "the latest, with their changes and costs", site.crawls.length ? table(
      [["Crawl", ""], [`Began, ${zoneName()}`, ""], ["State", ""], ["Listed", "num"], ["New", "num"], ["Changed", "num"], ["Delisted", "num"],
       ["Requests", "num"], ["Data", "num"], ["By proxies", "num"]],
      site.crawls.map((one) => [h("a", {href: `${pages}/${one.id}`, "data-key": `crawl-${one.id}`}, String(one.id)), one.started_at ? when(one.started_at) : "–",
        stateBadge(one.suspect ? "suspect" : one.status), one.products === null ? "–" : count(one.products), count(one.products_new), count(one.products_changed),
        count(one.products_delisted), count(one.fetches), one.bytes === null ? "–" : size(one.bytes), one.bytes === null ? "–" : size(one.proxy_bytes)]), "Crawls")
      : h("p", {class: "crawl-empty"}, "Not crawled yet.")));
    const weeks = [...new Set(Object.values(site.fill).flat().map((one) => one.week))].sort();
    section("site-fill", site.fill, () => weeks.length > 0 && card("Fields over weeks", "share of product pages with a value", table(
      [["Field", ""], ["Course", ""], ...weeks.map((week) => [week.slice(0, 10), "num"])],
      Object.entries(site.fill).map(([name, points]) => [plain(name), spark(points.map((one) => one.fill || 0), `${plain(name)}: filled, week by week`), ...weeks.map((week) => {
        const point = points.find((one) => one.week === week);
        return point && point.fill !== null ? `${(point.fill * 100).toFixed(1)} %` : "–";
      })]), "Fields over weeks")));
    section("site-definition", site.definition, () => h("details", {class: "crawl-card", "data-key": "definition"},
      h("summary", {"data-key": "definition-summary"}, "Definition in use"), h("pre", {class: "detail-code"}, plain(site.definition))));
  }

  function changesTable(changes) {
    return table([[`When, ${zoneName()}`, ""], ["What", ""], ["Product", "wide"], ["Change", "wide"]], changes.map((one) => [when(one.at), stateBadge(one.event),
      h("a", {href: address(one.site, one.id), "data-key": `change-${one.cursor}`}, plain(one.title || one.id)),
      one.fields.length ? [one.fields.map((each) => h("div", {}, `${plain(each.field)}: ${plain(each.before) || "nothing"} → ${plain(each.after) || "nothing"}`, each.percent && ` (${each.percent})`)),
        one.more > 0 && h("div", {class: "crawl-detail"}, `and ${count(one.more)} more fields`)] : plain(one.price ?? "")]), "Latest changes");
  }

  /* Charts of fewer than seven days say nothing that the table does not. */
  function drawDays({days, timezone}) {
    const box = document.getElementById("days"), first = days.findIndex((day) => day.crawls);
    if (first < 0) { box.replaceChildren(); return; }
    const shown = DAYS.filter(([name]) => days.some((day) => day[name] !== null) && (name !== "proxy_bytes" || days.some((day) => day.proxy_bytes)));
    const charted = days.length - first >= CHARTS_FROM ? shown : [];
    section("days", charted, () => charted.map(([name, title]) => h("section", {class: "crawl-card", "aria-label": title}, h("h2", {}, title), h("div", {id: `chart-${name}`}))));
    for (const [name, title] of charted) {
      const of = (day) => /bytes/.test(name) ? day[name] / 1e6 : day[name];
      const known = days.filter((day) => day[name] !== null);
      chart(document.getElementById(`chart-${name}`), {points: days.map((day) => ({at: `${day.day}T00:00`, values: [day[name] === null ? null : of(day)]})), step_s: 86400,
        kind: name === "listed" ? "area" : "bars", whole: !/bytes/.test(name), height: 130, series: [{name: title, tone: "tone-rate"}], unit: plain(timezone), table: false,
        label: `${title}: ${number(of(known[known.length - 1]))} on ${known[known.length - 1].day}; the table has every day`});
    }
    section("site-table", days, () => h("details", {class: "crawl-card", "data-key": "days"}, h("summary", {"data-key": "days-summary"}, `Days as a table (${plain(timezone)})`),
      table([["Day", ""], ["Crawls", "num"], ...shown.map(([, title]) => [title.replace(" a day", ""), "num"])],
        days.filter((day) => day.crawls || day.repriced).reverse().map((day) => [day.day, count(day.crawls), ...shown.map(([name]) =>
          day[name] === null ? "–" : /bytes/.test(name) ? number(day[name] / 1e6) : count(day[name]))]), "Days")));
  }

  function drawProduct({product, values, crawls, prices, stock, changes, changes_in_all: all, site}) {
    const crawlLink = (id) => id === null ? "–" : h("a", {href: `${pages}/${id}`}, String(id));
    section("picture", [product.pictured, site, product.id, product.title], () => product.pictured && picture(site, product));
    section("offer", [product, prices, changes.slice(0, 1)], () => offer(product, prices, changes));
    const courses = [...(Object.keys(prices).length ? [["prices", prices]] : []), ...Object.entries(stock)];
    section("prices", courses, () => courses.map(([name]) => card(name === "prices" ? "Price over time" : plain(name), "", h("div", {id: `chart-of-${plain(name)}`}))));
    for (const [name, course] of courses) {
      const box = document.getElementById(`chart-of-${plain(name)}`);
      name === "prices" ? drawPrices(box, course) : drawStock(box, name, course);
    }
    section("changes", changes, () => card("Changes", changes.length < all ? `the latest ${changes.length} of ${count(all)}` : count(all), table(
      [[`When, ${zoneName()}`, ""], ["Field", ""], ["Percent", "num"], ["Change", "wide"]],
      changes.flatMap((change) => change.fields.map((one) => [when(change.at), plain(one.field), one.percent,
        one.before ? `${plain(one.before)} → ${plain(one.after) || "nothing"}` : plain(one.after)])), "Changes")));
    section("values", [product, values], () => card("Values", product.delisted_at ? "delisted" : "",
      table([["Field", ""], ["Value", "wide"], [`Since, ${zoneName()}`, ""], ["Held", ""]], values.map((one) => [plain(one.field), plain(one.value), when(one.since),
        one.held ? h("span", {title: plain(one.held.why)}, `${plain(one.held.value)}, crawl ${one.held.crawl}: ${plain(one.held.why)}`) : ""]), "Values"),
      h("details", {"data-key": "origins"}, h("summary", {"data-key": "origins-summary"}, "Details"),
        table([["Field", ""], ["Crawl", "num"], ["Definition", ""], ["Read from", "wide"]], values.map((one) => [
          plain(one.field), crawlLink(one.crawl), plain(one.definition), plain(one.sources.join(" or "))]), "Details"),
        h("p", {class: "crawl-detail"}, "To see which source gave a value: ", h("code", {}, command("scraper why", site, ...String(product.id).startsWith("-") ? ["--"] : [], product.id))))));
    section("seen", crawls, () => card("Crawls that saw it", "those that added or changed it, and the last one that reached it", table(
      [["Crawl", "num"], [`When, ${zoneName()}`, ""], ["State", ""], ["Result", "wide"]],
      crawls.map((one) => [crawlLink(one.crawl), when(one.at), stateBadge(one.suspect ? "suspect" : one.status), plain(one.what)]), "Crawls that saw it")));
    return false;
  }

  /* Flower fetches it and keeps it; the shop's own address is never in this page. */
  function picture(site, product) {
    const shown = h("img", {class: "product-picture", src: `${api}/picture?${new URLSearchParams({site, id: product.id})}`, alt: plain(product.title || product.id), referrerpolicy: "no-referrer"});
    const frame = h("figure", {class: "crawl-card product-frame"}, shown);
    shown.addEventListener("error", () => frame.replaceChildren(h("p", {class: "crawl-empty"}, "No picture: the shop did not send one that can be shown.")));
    return frame;
  }

  /* The product's price on top, what it was before, and what the shop says that it was. */
  function offer(product, prices, changes) {
    const [first, ...others] = product.prices;
    const latest = (name) => prices[name]?.[prices[name].length - 1];
    const move = first && changes.flatMap((one) => one.fields.map((each) => ({...each, at: one.at}))).find((one) => one.field === first.field && one.before);
    const below = ({field}) => {
      const now = latest(first.field), was = latest(field);
      return was && now.currency === was.currency && was.value > now.value ? `the price is ${((was.value - now.value) / was.value * 100).toFixed(1)} % lower` : "";
    };
    return [h("div", {class: "metric-grid"},
      first && metric(plain(first.field), plain(first.text), move ? [`was ${plain(move.before)}${move.percent && `, ${move.percent}`}, until `, when(move.at, true)] : "no other price yet", "metric-card-active"),
      others.map((one) => metric(plain(one.field), plain(one.text), below(one))),
      metric("Stock", product.delisted_at ? "delisted" : product.stock === null ? "–" : product.stock ? "in stock" : "sold out", product.stock === null && !product.delisted_at ? "the shop does not say" : "",
        product.delisted_at || product.stock === false ? "metric-card-danger" : "metric-card-success"),
      metric("Last seen", when(product.fetched_at, true), ["changed ", when(product.changed_at, true)])),
      h("p", {class: "crawl-card"}, link(product.url))];
  }

  /* All prices of one currency in one chart: each point has the values that were in force. */
  function drawPrices(box, prices) {
    const names = Object.keys(prices), currency = prices[names[0]].at(-1)?.currency;
    const same = names.filter((name) => prices[name].at(-1)?.currency === currency).slice(0, TONES_OF_PRICES.length);
    const times = [...new Set(same.flatMap((name) => prices[name].map((point) => point.valid_from)))].sort((a, b) => Date.parse(a) - Date.parse(b));
    const at = (name, time) => prices[name].findLast((point) => Date.parse(point.valid_from) <= Date.parse(time));
    const value = (point) => typeof point?.value === "number" && point.currency === currency ? point.value : null;
    chart(box, {kind: "steps", height: 200, unit: plain(currency || ""), near: true, series: same.map((name, i) => ({name: plain(name), tone: TONES_OF_PRICES[i]})),
      points: times.map((time) => ({at: time, values: same.map((name) => value(at(name, time)))})),
      label: `${same.map(plain).join(" and ")} over time; the table has its values`});
  }

  function drawStock(box, name, points) {
    const flag = points.some((point) => typeof point.value === "boolean");
    chart(box, {kind: "steps", height: 200, unit: flag ? "1: in stock, 0: sold out" : "pieces", whole: true, series: [{name: plain(name), tone: "tone-rate"}],
      points: points.map((point) => ({at: point.valid_from, values: [typeof point.value === "boolean" ? Number(point.value) : typeof point.value === "number" ? point.value : null]})),
      label: `${plain(name)} over time; the table has its values`});
  }

  // --- one crawl

  function tones(outcomes) {
    const seen = {};
    return outcomes.map((one) => {
      seen[one.blame] = (seen[one.blame] ?? -1) + 1;
      return `tone-${one.blame}-${Math.min(seen[one.blame], 3)}`;
    });
  }

  function drawCrawl(data) {
    const crawl = {...data.crawl, active_now: active(data.crawl)};
    const title = document.getElementById("heading");
    if (title.textContent !== plain(crawl.site)) title.textContent = plain(crawl.site);
    document.getElementById("the-site").href = siteAddress(crawl.site);
    section("actions", [crawl.status, crawl.paused, crawl.phase, crawl.ending, crawl.state, data.may_accept, data.may_reject], () => actions(crawl, data));
    // The reason may be a shortened note, or name the last of the dead pages that the note counts.
    const given = (crawl.note || "").split("; ").filter((part) => !data.dead.length || !/^[\d,]+ pages? (dead|invalid)( and [\d,]+ pages? invalid)?$/.test(part)).join("; ");
    const cut = data.why && given.startsWith(data.why), judged = crawl.state === "suspect" && data.reasons.length > 0;
    const notes = [cut ? given : judged ? "" : data.why, cut || data.why.includes(given) ? "" : given].filter(Boolean);
    section("note", [notes, crawl.state], () => notes.map((text) => h("div", {class: `alert ${crawl.state === "failed" || crawl.state === "suspect" ? "alert-danger" : "alert-secondary"}`},
      text === notes[0] && data.why && !judged ? `${plain(crawl.state)}: ` : "", message(text))));
    section("reasons", [data.reasons, data.held], () => (data.reasons.length || data.held.length) && reasons(data));
    section("summary", crawl, () => [
      metric(crawl.active_now ? "Left" : "Took", crawl.active_now ? crawl.state === "waiting" ? "–" : left(crawl) : duration(crawl.elapsed_s),
             crawl.active_now ? `${crawl.state === "waiting" ? "no progress; " : ""}running for ${duration(crawl.elapsed_s)}` : `ended ${new Date(crawl.finished_at).toLocaleString([], {hourCycle: "h23"})} ${zoneName(new Date(crawl.finished_at))}`, "metric-card-active"),
      metric("Pages a second", rate(crawl.active_now ? crawl.recent_per_s : crawl.pages_per_s),
             crawl.active_now ? `${rate(crawl.pages_per_s)} on average` : "on average"),
      metric("Pages done", count(crawl.done), `${crawl.fresh ? `fetched ${count(crawl.done - crawl.fresh)}, not due ${count(crawl.fresh)}; ` : ""}of ${count(crawl.total)}${crawl.phase === "discovering" ? " so far" : ""}; ${count(crawl.fetches)} fetches, ${count(crawl.retries)} retries`, "metric-card-success"),
      metric("Dead and invalid", count(crawl.failed), `also ${count(crawl.gone)} gone, ${count(crawl.fresh)} not due, ${count(crawl.not_modified)} not modified`, "metric-card-danger"),
      metric("Products", count(crawl.products_new + crawl.products_changed),
             `${count(crawl.products_new)} new, ${count(crawl.products_changed)} changed, ${count(crawl.products_delisted)} delisted`),
      crawl.coverage && metric("Found", `${count(crawl.coverage.products)} of ${count(crawl.coverage.expected)}`, `by: ${plain(crawl.coverage.evidence)}`),
    ]);
    section("bars", [crawl.discovery_done, crawl.discovery_total, crawl.product_done, crawl.product_total, crawl.status, COUNTS.map(([n]) => crawl[n])],
            () => [...bars(crawl), chips(crawl)]);
    charts(data);
    section("fields", data.fields, () => data.fields.length && card("Fields", "fill rates of this and of earlier crawls", table(
      [["Field", ""], ["Filled", "num"], ["Usually", "num"], ["", ""]],
      data.fields.map((one) => [plain(one.field), `${(one.rate * 100).toFixed(1)} %`, one.usual === null ? "–" : `${(one.usual * 100).toFixed(1)} %`,
                                one.suspect ? h("span", {class: "crawl-badge badge-bad"}, "suspect") : ""]), "Fields")));
    section("dead", [data.dead, data.dead_reasons, crawl.failed, crawl.paused], () => data.dead.length && dead(data, crawl));
    // Dead and invalid pages have a list of their own.
    const errors = data.errors.filter((one) => one.status !== "dead" && one.status !== "invalid");
    section("errors", errors, () => errors.length && card("Latest errors", "of pages that are retried", table(
      [["When", ""], ["Blames", ""], ["Outcome", ""], ["HTTP", "num"], ["Page is now", ""], ["Page", "wide"]],
      errors.map((one) => [when(one.settled_at), blame(one.blame), h("span", {title: one.phrase}, plain(one.outcome)), one.http_status ?? "–", plain(one.status),
                                [link(one.url), h("div", {class: "crawl-detail"}, plain(one.error))]]), "Latest errors")));
    const all = data.outcomes.reduce((sum, one) => sum + one.tries, 0);
    section("outcomes", data.outcomes, () => data.outcomes.length && card("Outcomes", `${count(all)} tries`, table(
      [["Outcome", ""], ["Blames", ""], ["Tries", "num"], ["Share", "num"]],
      data.outcomes.map((one) => [h("span", {title: one.phrase}, plain(one.name)), blame(one.blame), count(one.tries), `${(one.tries / all * 100).toFixed(1)} %`]), "Outcomes")));
    const shares = (first, list, name) => table(
      [[first, ""], ["Tries", "num"], ["Failed", "num"], ["Mean", "num"], ["Data", "num"]],
      list.map((one) => [plain(one.name) || "none", count(one.tries), count(one.failures), seconds(one.mean_s), size(one.bytes)]), name);
    section("workers", data.workers, () => data.workers.length && card("Workers", `${data.workers.length}`, shares("Worker", data.workers, "Workers")));
    section("queues", [data.queues, data.proxies], () => data.queues.length && card("Queues and proxies", "",
      shares("Queue", data.queues, "Queues"), shares("Proxy class", data.proxies, "Proxy classes")));
    section("hosts", [data.hosts, data.hosts_in_all], () => data.hosts.length && card("Slowest hosts",
      data.hosts_in_all > data.hosts.length ? `${data.hosts.length} of ${count(data.hosts_in_all)}` : "", table(
      [["Host", ""], ["Mean", "num"], ["Slowest", "num"], ["Tries", "num"], ["Failed", "num"], ["Data", "num"]],
      data.hosts.map((one) => [plain(one.host) || "all others", seconds(one.mean_s), seconds(one.slowest_s), count(one.tries), count(one.failures), size(one.bytes)]), "Slowest hosts")));
    return crawl.active_now;
  }

  function charts({course, outcomes}) {
    const quiet = !course.points.some((point) => point.tries);
    section("chart-rate", quiet, () => quiet && h("p", {class: "crawl-empty"}, "Nothing was fetched, or the data of this crawl is no longer kept."));
    if (quiet) return;
    const shown = outcomes.slice(0, KEPT), others = outcomes.slice(KEPT).map((one) => one.name);
    const series = shown.map((one, i) => ({name: one.name, tone: tones(shown)[i]}));
    if (others.length) series.push({name: "others", tone: "tone-others"});
    const partly = course.points.length > 1 && course.points[course.points.length - 1].covered_s < PARTLY_S;
    chart(document.getElementById("chart-rate"), {
      points: course.points.slice(0, partly ? -1 : undefined).map((point) => ({at: point.at, values: [point.per_s]})), step_s: course.step_s, kind: "area",
      series: [{name: "pages a second", tone: "tone-rate"}], unit: "pages a second", label: "Pages a second over time"});
    chart(document.getElementById("chart-outcomes"), {
      points: course.points.map((point) => ({at: point.at, values: [
        ...shown.map((one) => point.outcomes[one.name] || 0),
        ...(others.length ? [others.reduce((sum, name) => sum + (point.outcomes[name] || 0), 0)] : [])]})),
      step_s: course.step_s, kind: "bars", series, unit: "pages by outcome", label: "Outcomes over time"});
  }

  function blame(who) {
    return who === "nobody" ? h("span", {class: "crawl-detail"}, "nobody") : h("span", {class: `chip chip-${who}`}, who);
  }

  function dead({dead: list, dead_reasons: reasons}, crawl) {
    const all = reasons.reduce((sum, one) => sum + one.pages, 0);
    return card("Dead and invalid pages", list.length < all ? `the latest ${list.length} of ${count(all)}` : `${all}`,
      h("div", {class: "crawl-reasons"}, reasons.map((one) => h("div", {class: "crawl-reason"},
        h("span", {}, blame(one.blame), h("b", {}, ` ${plain(one.reason)} `), `${count(one.pages)}`, h("span", {class: "crawl-detail"}, ` ${one.phrase}`)),
        button(`Replay ${count(one.pages)}`, "replay", {reason: one.reason}, `replay-${one.reason}`)))),
      list.map((one) => h("details", {class: "crawl-dead", "data-key": `page-${one.id}`},
        h("summary", {"data-key": `summary-${one.id}`}, h("span", {class: "crawl-dead-line"}, blame(one.blame), h("b", {}, plain(one.reason)),
          h("span", {class: "url"}, plain(one.url)))),
        h("div", {class: "crawl-dead-body"},
          h("p", {}, link(one.url)),
          h("p", {}, `${plain(one.kind)}, ${plain(one.status)}, page ${one.id}, ${one.tries} tries, HTTP ${one.http_status ?? "–"}, `, when(one.settled_at)),
          one.error && h("p", {}, plain(one.error)),
          one.excerpt && h("pre", {class: "detail-code"}, plain(one.excerpt)),
          button("Replay this page", "replay", {page: one.id}, `replay-${one.id}`)))));
  }

  function reasons({reasons: list, held}) {
    const suspect = list.some((one) => one.level !== "notice");
    return card(suspect ? "Why it is suspect" : list.length ? "Notices" : "Held", "",
      list.map((one) => h("div", {class: "crawl-why"},
        h("p", {}, h("b", {}, plain(one.field ?? "products")), ": ", plain(one.text)),
        one.examples.length > 0 && h("ul", {}, one.examples.map((page) => h("li", {}, link(page.url),
          h("div", {class: "crawl-detail"}, plain(page.problem), page.known !== null && `; known as ${plain(page.known)}`),
          page.excerpt && h("pre", {class: "detail-code"}, plain(page.excerpt))))))),
      held.length > 0 && table([["Field", ""], ["Values", "num"], ["Why", "wide"], ["Product has", "value"], ["Page says", "value"], ["Example", "wide"]],
        held.map((one) => [plain(one.field) || "new products", count(one.number), plain(one.why), ...[one.known, one.value].map((value) => plain(one.field ? value ?? "nothing" : "–")), link(one.url)]), "Held values"));
  }

  // --- actions

  function actions(crawl, data) {
    const made = [badge(crawl), h("a", {class: "btn btn-sm btn-outline-primary", href: siteAddress(crawl.site), "data-key": "site"}, "Site"), h("a", {class: "btn btn-sm btn-outline-primary", href: address(crawl.site), "data-key": "products"}, "Products")];
    if (crawl.paused) made.push(button("Resume site", "resume", {}, "resume"));
    else if (crawl.active_now) made.push(button("Pause site", "pause", {}, "pause"));
    if (crawl.active_now) made.push(button("Stop crawl", "stop", {}, "stop", true));
    else made.push(button("Crawl now", "crawl", {}, "crawl"));
    if (data.may_accept && (crawl.state === "suspect" || data.held.length)) made.push(button("Accept", "accept", {}, "accept", true));
    if (data.may_reject && crawl.state === "suspect") made.push(button("Reject", "reject", {}, "reject", true));
    return made.filter(Boolean);
  }

  /* When it was asked whether an action is meant: its button may be drawn anew before the answer. */
  const asked = new Map(), ASKED_MS = 20000;

  function button(text, action, wish, key, sure) {
    if (readOnly) return null;
    const kind = action === "stop" || action === "reject" ? "btn-outline-danger" : "btn-outline-primary";
    const made = h("button", {type: "button", class: `btn btn-sm ${kind}`, "data-key": key, "data-action": action}, text);
    const isAsked = () => Date.now() - (asked.get(key) || 0) < ASKED_MS;
    const draw = () => {
      made.textContent = isAsked() ? `Really ${action}?` : text;
      if (isAsked()) setTimeout(draw, ASKED_MS + 1);
    };
    draw();
    made.addEventListener("click", async () => {
      if (sure && !isAsked()) {
        // The server first says what the action would do.
        if (action !== "stop" && !await act(action, {dry: true})) return;
        asked.set(key, Date.now());
        draw();
        return;
      }
      asked.delete(key);
      draw();
      made.disabled = true;
      await act(action, wish);
      made.disabled = false;
    });
    return made;
  }

  function token() {
    return (document.cookie.match(/(?:^|;\s*)_xsrf=([^;]+)/) || [])[1] || "";
  }

  /* Returns the answer of an action: {error} where it was refused. */
  async function post(action, wish) {
    try {
      const answer = await fetch(`${api}${crawlId && `/${crawlId}`}/${action}`, {
        method: "POST", credentials: "same-origin", body: JSON.stringify(wish),
        headers: {"Content-Type": "application/json", "X-XSRFToken": decodeURIComponent(token())}});
      const told = await answer.json().catch(() => ({}));
      return answer.ok || told.error ? told : {error: `The server answered ${answer.status}.`};
    } catch (error) {
      return {error: "Flower does not answer."};
    }
  }

  async function act(action, wish) {
    const told = await post(action, wish), good = !told.error;
    say(told.message || told.error, good, wish.dry ? 20000 : 8000);
    await refresh();
    return good;
  }

  let clearing = null;
  function say(text, good, goodMs = 8000) {
    const box = document.getElementById("crawls-message");
    box.className = `alert ${good ? "alert-success" : "alert-danger"}`;
    box.textContent = plain(text);
    clearTimeout(clearing);
    clearing = setTimeout(() => box.classList.add("d-none"), good ? goodMs : 20000);
  }

  // --- refreshing

  function problem(text) {
    const box = document.getElementById("crawls-problem");
    box.textContent = text;
    box.classList.toggle("d-none", !text);
    document.getElementById("crawls-dot").className = `status-dot ${text ? "status-dot-error" : "status-dot-live"}`;
    page.classList.toggle("crawls-stale", Boolean(text));
  }

  async function refresh() {
    if (asking) { again = true; return; }
    asking = true;
    clearTimeout(timer);
    try {
      const answer = await fetch(own ? own.address() : crawlId ? `${api}/${crawlId}` : ofSite ? api : `${api}?${query()}`, {credentials: "same-origin", signal: AbortSignal.timeout(20000)});
      if (answer.ok) {
        const data = await answer.json();
        const moves = own ? own.draw(data) : crawlId ? drawCrawl(data) : ofSite ? drawSite(data) : ofProducts ? drawProducts(data) : drawList(data);
        everyMs = ofSite ? SITE_MS : moves ? RUNNING_MS : QUIET_MS;
        problem("");
        page.dataset.refreshed = String(Number(page.dataset.refreshed || 0) + 1);
        if (!document.hidden) document.getElementById("crawls-refreshed").textContent = `Updated ${new Date(data.now).toLocaleTimeString([], {hourCycle: "h23"})} ${zoneName()}`;
      } else {
        const told = await answer.json().catch(() => ({}));
        problem(answer.status === 401 ? "You are not logged in any more: load this page again." : told.error || `The server answered ${answer.status}.`);
        everyMs = AWAY_MS;
      }
    } catch (error) {
      problem(error instanceof TypeError || error.name === "TimeoutError" ? "Flower does not answer. This page retries automatically." : `This page failed: ${error}`);
      if (!(error instanceof TypeError)) console.error(error);
      everyMs = AWAY_MS;
    }
    asking = false;
    if (again) { again = false; refresh(); return; }
    if (!document.hidden) timer = setTimeout(refresh, everyMs);
  }

  // --- parts of forms, for the pages of plug-ins

  function field(label, name, attributes, choices) {
    const list = choices && h("datalist", {id: `choices-${name}`}, choices.map((value) => h("option", {value})));
    return h("label", {class: "tab-field"}, h("span", {}, label), h("input", {class: "form-control form-control-sm", name, autocomplete: "off", spellcheck: "false", maxlength: "200", list: choices && list.id, ...attributes}), list);
  }

  /* A button that does its work once at a time. */
  function workButton(text, kind, key, work, label) {
    const made = h("button", {type: "button", class: `btn btn-sm btn-outline-${kind}`, "data-key": key, "aria-label": label}, text);
    made.addEventListener("click", async () => { made.disabled = true; await work(made); made.disabled = false; });
    return made;
  }

  function diffOf(lines) {
    return h("pre", {class: "detail-code tab-diff", tabindex: "0", role: "region", "aria-label": "Difference"}, lines.map((line) =>
      h("span", {class: line[0] === "+" ? "tab-added" : line[0] === "-" ? "tab-removed" : ""}, `${plain(line)}\n`)));
  }

  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("[data-slash]");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || !search || event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    search.focus();
    search.select();
  });

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) document.getElementById("crawls-refreshed").textContent = "Paused while hidden";
    else if (own || !page.dataset.plugin) refresh();
  });
  if (!page.dataset.plugin) refresh();
  window.crawlsTab = {h, plain, message, section, card, table, field, button: workButton, diffOf, metric, when, link, count, chart, number, act, post, refresh, say, api, pages, readOnly: Boolean(readOnly), mayEdit: Boolean(mayEdit),
                      start(script) { own = script; refresh(); }};
}());
