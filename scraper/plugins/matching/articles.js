/* The page "Articles" of the Crawls tab: a search, an article with the prices of all shops, and the review of proposals by keyboard. */
(function () {
  "use strict";

  const {h, plain, section, card, table, link, count, chart, act, refresh, api, readOnly, start} = window.crawlsTab;
  const TONES = ["rate", "page-0", "parser-0", "host-0", "proxy-0", "nobody-0", "us-0", "others"].map((name) => `tone-${name}`);
  const wanted = new URLSearchParams(location.search);
  const box = document.getElementById("own-page"), path = location.pathname;
  let proposal = null;

  function want(changes) {
    for (const [name, value] of Object.entries(changes)) value ? wanted.set(name, value) : wanted.delete(name);
    history.replaceState(null, "", `${path}${wanted.size ? `?${wanted}` : ""}`);
    refresh();
  }

  function amount(price, currency) {
    if (price === null) return "–";
    return `${Number(price).toLocaleString("en", {minimumFractionDigits: 2, maximumFractionDigits: 2})} ${plain(currency)}`;
  }

  function stock(value) {
    return value === null ? "–" : value ? "in stock" : "sold out";
  }

  // --- the list

  function drawList({articles, most}) {
    section("article-list", articles, () => card("Products over all shops", articles.length < most ? count(articles.length) : `the first ${most}: search for others`, table(
      [["Product", "wide"], ["Best price", "num"], ["At", ""], ["Shops", "num"], ["In stock", "num"], ["Lowest in 30 days", "num"], ["Spread", "num"]],
      articles.map((one) => [h("a", {href: `${path}?id=${one.article}`, "data-key": `article-${one.article}`}, plain(one.title) || `article ${one.article}`),
        amount(one.price, one.currency), plain(one.at) || "–", count(one.shops), count(one.in_stock), amount(one.lowest_30_days, one.currency),
        one.spread_percent === null ? "–" : `${Number(one.spread_percent)} %`]), "Products over all shops")));
  }

  // --- one article

  function drawArticle({article, offers, shops, points}) {
    document.getElementById("heading").textContent = plain(article.title) || `Article ${article.article}`;
    section("article-best", article, () => card("Best price now", article.gtin ? `GTIN ${plain(article.gtin)}` : "", h("p", {}, article.price === null ? "No shop has it in stock." :
      [h("b", {}, amount(article.price, article.currency)), ` at ${plain(article.at)}; lowest in 30 days ${amount(article.lowest_30_days, article.currency)}`].flat())));
    section("article-prices", shops, () => shops.length ? card("Prices of all shops", plain(article.currency), h("div", {id: "article-chart"})) : null);
    if (shops.length) {
      chart(document.getElementById("article-chart"), {kind: "steps", height: 240, near: true, unit: plain(article.currency),
        series: shops.map((name, i) => ({name: plain(name), tone: TONES[i % TONES.length]})),
        points: points.map((point) => ({at: point.at, values: point.values.map((value) => value === null ? null : Number(value))})),
        label: `Prices of ${shops.length} shops over time; the table has them`});
    }
    section("article-offers", offers, () => card("Offers", count(offers.length), table(
      [["Shop", ""], ["Price", "num"], ["Per unit", "num"], ["Stock", ""], ["Title", "wide"], ["Page", "wide"]],
      offers.map((one) => [h("a", {href: `${path.replace(/[^/]*$/, "products")}?${new URLSearchParams({site: one.site, id: one.id})}`}, plain(one.site)),
        amount(one.price, one.currency), one.unit_price === null ? "–" : `${amount(one.unit_price, one.currency)}/${plain(one.unit)}`,
        one.listed ? stock(one.in_stock) : "not listed", plain(one.title), one.url ? link(one.url) : "–"]), "Offers")));
  }

  // --- the review

  function drawReview({proposals, links}) {
    const waiting = links.filter((one) => one.state === "proposed").reduce((sum, one) => sum + one.links, 0);
    proposal = proposals[0] || null;
    document.getElementById("heading").textContent = "Are these one product?";
    section("article-review", [proposal, waiting], () => proposal ? card(`Confidence ${Math.round(proposal.confidence * 100)} %`, `${count(waiting)} proposals`,
      h("p", {id: "review-why"}, plain(proposal.why)),
      table([["Shop", ""], ["Title", "wide"], ["Price", "num"], ["Page", "wide"]], ["left", "right"].map((side) => [plain(proposal[`${side}_site`]),
        plain(proposal[`${side}_title`]), amount(proposal[`${side}_price`], proposal[`${side}_currency`]), proposal[`${side}_url`] ? link(proposal[`${side}_url`]) : "–"]), "Two offers"),
      readOnly ? null : h("div", {class: "crawl-actions", role: "group", "aria-label": "Decision"},
        choice("One product", "y", "btn-outline-primary"), choice("Different products", "n", "btn-outline-danger"), choice("Skip", "s", "btn-outline-secondary"))) :
      card("Nothing to review", "", h("p", {}, wanted.get("after") ? h("a", {href: `${path}?show=review`}, "Begin again with those that you skipped") : "Every proposal has a decision.")));
  }

  function choice(text, key, kind) {
    return h("button", {type: "button", class: `btn btn-sm ${kind}`, "data-key": `choice-${key}`, "aria-keyshortcuts": key, on: () => decide(key)}, `${text} (${key})`);
  }

  let deciding = false;
  async function decide(key) {
    if (!proposal || deciding || readOnly) return;
    const {left_id: left, right_id: right, confidence} = proposal;
    if (key === "s") { want({after: [confidence, left, right].join()}); return; }
    deciding = true;
    await act(key === "y" ? "confirm" : "refuse", {left, right});
    deciding = false;
  }

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (wanted.get("show") !== "review" || typing || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (["y", "n", "s"].includes(event.key)) { event.preventDefault(); decide(event.key); }
  });

  // --- the page

  function filter() {
    let typing = null;
    const search = h("input", {class: "form-control form-control-sm", type: "search", name: "search", placeholder: "Search products, GTIN or number", "aria-label": "Search products", autocomplete: "off", maxlength: "100", value: wanted.get("search")});
    const shops = h("select", {class: "form-select form-select-sm", name: "shops", "aria-label": "Shops"}, [["", "At any number of shops"], ["2", "At two shops or more"], ["3", "At three shops or more"]].map(([value, text]) => h("option", {value, selected: value === (wanted.get("shops") || "")}, text)));
    const form = h("form", {class: "fleet-filters", role: "search", "aria-label": "Which products"}, search, shops, h("a", {class: "btn btn-sm btn-outline-primary", href: `${path}?show=review`}, "Review proposals"));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => want({search: search.value.trim(), shops: shops.value}), 250); });
    return form;
  }

  const shown = wanted.has("id") ? ["article-best", "article-prices", "article-offers"] : wanted.get("show") === "review" ? ["article-review"] : ["article-list"];
  box.append(...(shown[0] === "article-list" ? [filter()] : []), ...shown.map((id) => h("section", {id})));
  start({
    address: () => `${api}?${wanted}`,
    draw(data) {
      if (data.article) drawArticle(data);
      else if (data.proposals) drawReview(data);
      else drawList(data);
      return false;
    },
  });
}());
