/* The page "Drops" of the Crawls tab. */
(function () {
  "use strict";

  const {h, plain, section, card, table, when, count, api, pages, start} = window.crawlsTab;
  document.getElementById("own-page").append(h("section", {id: "drops"}));

  function draw({drops, matching, complete}) {
    section("drops", [drops, matching, complete], () => card("Cheaper than a day ago", drops.length < matching ? `the largest ${drops.length} of ${count(matching)}` : count(matching),
      drops.length ? table([["Product", "wide"], ["Shop", ""], ["Percent", "num"], ["Before", "num"], ["Now", "num"], ["Changed", ""]], drops.map((one) => [
        h("a", {href: `${pages}/products?${new URLSearchParams({site: one.site, id: one.id})}`, "data-key": `${one.site} ${one.id}`}, plain(one.title || one.id)),
        h("a", {href: `${pages}/sites/${encodeURIComponent(one.site)}`}, plain(one.site)), `${one.percent.toFixed(1)} %`, plain(one.before), plain(one.price), when(one.at, true)]), "Price drops")
        : h("p", {class: "crawl-empty"}, "No price fell in the last 24 hours."),
      !complete && h("p", {class: "crawl-detail"}, "More products changed than are compared: the newest changes of each shop are.")));
    return false;
  }

  start({address: () => api, draw});
}());
