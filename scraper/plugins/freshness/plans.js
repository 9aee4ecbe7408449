/* The page "Plans" of the Crawls tab. */
(function () {
  "use strict";

  const {h, plain, section, card, table, count, api, pages, start} = window.crawlsTab;
  document.getElementById("own-page").append(h("section", {id: "plans"}), h("section", {id: "plan"}));
  const asked = new URLSearchParams(location.search).get("site");
  const percent = (share) => share === null || share === undefined ? "not known yet" : `${(100 * share).toFixed(1)} %`;

  function drawPlans({plans, fleet, chosen}) {
    const unknown = Boolean(asked) && plans.length > 0 && asked !== chosen;
    const sum = `${count(fleet.sites)} ${fleet.sites === 1 ? "shop" : "shops"}, ${count(fleet.broken)} not kept`;
    section("plans", [plans, fleet, chosen], () => card("Plans", sum,
      unknown && h("p", {class: "crawl-empty"}, "No planned shop is named ", plain(asked), "."),
      plans.length ? table([["Shop", "wide"], ["Promise", ""], ["Promise kept", "num"], ["True at any time: planned", "num"], ["Kept", "num"], ["Requests a day", "num"], ["Needed", "num"], ["", ""]], plans.map((one) => [
        h("a", {href: `${pages}/plans?${new URLSearchParams({site: one.site})}`, "data-key": `plan-${one.site}`, "aria-current": one.site === chosen ? "true" : null}, plain(one.site)),
        one.promise ? plain(one.promise) : "none", one.promise ? percent(one.promise_kept) : "", percent(one.planned), percent(one.kept), count(Math.round(one.requests)), one.needed ? count(Math.round(one.needed)) : "", one.broken ? plain(one.broken) : "kept"]), "Plans")
        : h("p", {class: "crawl-empty"}, "No shop is planned: write budget: 20000/d or fresh: 95% within 12h in its definition."),
      fleet.sites > 1 && h("p", {class: "crawl-detail"}, `All shops: planned ${percent(fleet.planned)}, kept ${percent(fleet.kept)}, ${count(Math.round(fleet.requests))} requests a day.`)));
  }

  function drawCurve(plan) {
    const most = Math.max(...plan.curve.map((point) => point.requests_a_day), 1);
    return table([[`${Math.round(100 * plan.share)} % of products within`, "num"], ["Requests a day", "num"], ["", "wide"]], plan.curve.map((point) => [
      `${point.hours} h`, count(Math.round(point.requests_a_day)),
      h("progress", {max: String(most), value: String(point.requests_a_day), "aria-label": `${point.hours} h needs ${Math.round(point.requests_a_day)} requests a day`})]), "What requests buy");
  }

  function draw(answer) {
    drawPlans(answer);
    const plan = answer.plan;
    section("plan", plan, () => plan && card(plain(plan.site), `${count(plan.pages)} pages`,
      h("p", {}, `${Math.round(100 * plan.share)} % of products are true, or were ${plan.age_h.toFixed(1)} hours ago, for ${count(Math.round(plan.requests_a_day))} requests a day, ${count(Math.round(plan.visits_a_day))} of them for products. About ${count(Math.round(plan.changes_a_day))} products change a day.`),
      drawCurve(plan)));
    return false;
  }

  start({address: () => asked ? `${api}?${new URLSearchParams({site: asked})}` : api, draw});
}());
