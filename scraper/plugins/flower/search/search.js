/* The page "Search" of the Crawls tab: products of all shops. */
(function () {
  "use strict";

  const {h, plain, section, card, table, when, refresh, api, pages, button, start} = window.crawlsTab;
  const wanted = new URLSearchParams(location.search), box = document.getElementById("own-page"), TYPED_MS = 300, PAGE = 50;
  let typing = null;

  const input = h("input", {class: "form-control", type: "search", name: "q", autocomplete: "off", maxlength: "200", "aria-label": "Search the products of all shops", "data-slash": "yes",
    placeholder: "GTIN, article number, or words of the name"});
  const form = h("form", {class: "fleet-filters", role: "search", "aria-label": "Products of all shops"}, input);
  input.value = wanted.get("q") || "";

  function want(page) {
    page > 1 ? wanted.set("page", page) : wanted.delete("page");
    input.value.trim() ? wanted.set("q", input.value.trim()) : wanted.delete("q");
    history.replaceState(null, "", `${location.pathname}${wanted.size ? `?${wanted}` : ""}`);
    refresh();
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); want(1); });
  input.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => want(1), TYPED_MS); });
  box.append(form, h("p", {class: "crawl-detail", role: "status", id: "found"}), h("section", {id: "products-found"}), h("nav", {id: "found-pages", class: "fleet-pager", "aria-label": "Pages"}));

  function draw({products, words, page, more}) {
    const found = document.getElementById("found");
    const told = !words.length ? "All words must match; the last letters of a word may be missing." : more || page > 1 ? `Page ${page}${products.length ? `: products ${(page - 1) * PAGE + 1} to ${(page - 1) * PAGE + products.length}` : ""}. Add words for fewer.` : `${products.length} product${products.length === 1 ? "" : "s"}.`;
    if (found.textContent !== told) found.textContent = told;
    section("products-found", products, () => products.length ? card("Products", "", table(
      [["Product", "wide"], ["Shop", ""], ["Price", "num"], ["Stock", ""], ["GTIN", ""], ["Changed", ""]],
      products.map((one) => [
        [h("a", {href: `${pages}/products?${new URLSearchParams({site: one.site, id: one.id})}`, "data-key": `${one.site} ${one.id}`}, plain(one.title || one.id)), h("div", {class: "crawl-detail url"}, plain(one.id))],
        h("a", {href: `${pages}/sites/${encodeURIComponent(one.site)}`}, plain(one.site)), plain(one.price ?? "–"),
        one.delisted_at ? "delisted" : one.stock === null ? "–" : one.stock ? "in stock" : "sold out", plain(one.gtin ?? ""), when(one.changed_at)]), "Products"))
      : words.length ? card("", "", h("p", {class: "crawl-empty"}, "No product has all of these words.")) : null);
    section("found-pages", [page, more], () => [page > 1 && button("Previous", "primary", "previous", () => want(page - 1)), more && button("Next", "primary", "next", () => want(page + 1))]);
    return false;
  }

  input.focus();
  start({address: () => `${api}?${wanted}`, draw});
}());
