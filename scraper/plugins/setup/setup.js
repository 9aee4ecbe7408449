/* The page "Add shops" of the Crawls tab: addresses, the progress of surveys and what they found, an editor of definitions with live checks, and the log of changes. */
(function () {
  "use strict";

  const {h, plain, message, section, card, table, field, diffOf, link, count, when, act, post, say, refresh, api, pages, readOnly, start, button} = window.crawlsTab;
  const wanted = new URLSearchParams(location.search);
  const box = document.getElementById("own-page"), path = location.pathname;
  const TONES = {waiting: "quiet", reading: "busy", ready: "good", failed: "bad", cancelled: "quiet", saved: "good"};
  const SCHEDULES = ["0 6 * * *", "0 */6 * * *", "30 2 * * 1"], QUEUES = ["datacenter", "residential", "browser"];
  const CHECK_MS = 500;

  function optionFields(keys) {
    return [field("Schedule (cron)", "schedule", {value: keys.schedule, placeholder: "by hand"}, SCHEDULES),
      field("Timezone", "timezone", {value: keys.timezone, placeholder: "UTC"}, [Intl.DateTimeFormat().resolvedOptions().timeZone, "UTC"]),
      field("Requests to a host", "rate", {value: keys.rate, placeholder: "4/s"}), field("Queue", "queue", {value: keys.queue, placeholder: "datacenter"}, QUEUES), field("Tags", "tags", {value: keys.tags})];
  }

  function stateOf(survey) {
    const state = survey.saved ? "saved" : survey.state;
    return h("span", {class: `crawl-badge badge-${TONES[state] || "quiet"}`}, state);
  }

  function progress(survey) {
    if (survey.state === "reading") return survey.requests ? `request ${count(survey.requests)}: ${plain(survey.page)}` : "starting";
    if (survey.problem) return plain(survey.problem);
    return survey.state === "ready" ? `${count(survey.fields)} fields${survey.products === null ? "" : `, about ${count(survey.products)} products`}` : "";
  }

  async function crawl(site) {
    const told = await post("crawl", {site});
    say(told.message || told.error, !told.error);
    return told;
  }

  // --- the list

  function addressForm() {
    const addresses = h("textarea", {class: "form-control", name: "addresses", rows: "3", id: "addresses", spellcheck: "false", maxlength: "200000", placeholder: "https://shop.example/", "aria-describedby": "addresses-help"});
    const submit = h("button", {type: "submit", class: "btn btn-primary btn-sm"}, "Read shops");
    const form = h("form", {class: "crawl-card tab-form"},
      h("label", {class: "tab-label", for: "addresses"}, "Addresses of shops, one a line"), addresses,
      h("p", {class: "crawl-detail", id: "addresses-help"}, "A home page or a list of products. Reads at most 60 pages of each, as robots.txt allows, and stores nothing."),
      h("div", {class: "tab-row"}, field("Requests while reading", "rate", {placeholder: "4/s", size: "6"}), submit));
    // What was typed on the first screen.
    try { addresses.value = decodeURIComponent(location.hash.slice(1)); } catch { /* Not written by that screen. */ }
    if (addresses.value) { addresses.rows = Math.min(12, addresses.value.split("\n").length + 1); requestAnimationFrame(() => submit.focus()); }
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      const told = await post("survey", {addresses: addresses.value, rate: form.elements.rate.value});
      submit.disabled = false;
      say(told.message || told.error, !told.error);
      if (told.error) { addresses.focus(); return; }
      addresses.value = "";
      if (told.ids.length === 1) location.assign(`${path}?id=${told.ids[0]}`);
      else refresh();
    });
    return form;
  }

  let ready = [];
  function saveForm() {
    const also = h("input", {type: "checkbox", name: "crawl", class: "form-check-input"});
    const submit = h("button", {type: "submit", class: "btn btn-primary btn-sm"}, "Save all");
    const form = h("form", {class: "crawl-card tab-form d-none", id: "save-all"}, h("p", {class: "tab-label", id: "save-all-count"}, ""),
      h("div", {class: "tab-row"}, optionFields({})), h("div", {class: "tab-row"}, h("label", {class: "crawl-detail"}, also, " and crawl them now"), submit));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      const options = Object.fromEntries([...new FormData(form)].filter(([name, value]) => name !== "crawl" && value.trim()));
      const problems = [];
      let saved = 0;
      for (const {id, name} of ready) {
        let told = await post("save", {survey: id, ...options});
        if (!told.error && told.saved && also.checked) told = {saved: told.saved, ...await post("crawl", {site: told.saved})};
        if (told.saved) saved++;
        if (told.error || !told.saved) problems.push(`${plain(name)}: ${told.error || told.message}`);
      }
      submit.disabled = false;
      say([`${count(saved)} saved.`, ...problems].join("\n"), !problems.length);
      refresh();
    });
    return form;
  }

  function drawList({surveys, sites, changes, folder, writable}) {
    ready = surveys.filter((one) => one.state === "ready" && !one.saved && !one.problem);
    const all = document.getElementById("save-all");
    if (all) {
      all.classList.toggle("d-none", !ready.length);
      document.getElementById("save-all-count").textContent = `Save ${count(ready.length)} shop${ready.length === 1 ? "" : "s"} that are ready, with these settings`;
    }
    section("surveys", surveys, () => surveys.length ? card("Shops", count(surveys.length), table(
      [["Shop", "wide"], ["State", ""], ["", "wide"], ["By", ""], ["Added", ""], ["", ""]],
      surveys.map((one) => [h("a", {href: `${path}?id=${one.id}`, "data-key": `survey-${one.id}`}, plain(one.saved || one.name || one.url)), stateOf(one), progress(one), plain(one.by), when(one.asked_at),
        readOnly ? "" : one.state === "waiting" || one.state === "reading" ? button("Cancel", "danger", `cancel-${one.id}`, () => act("cancel", {id: one.id}))
          : button("Forget", "primary", `forget-${one.id}`, () => act("forget", {id: one.id}))]), "Shops")) : null);
    section("definitions", [sites, folder, writable], () => card("Definitions", `${count(sites.length)} in ${plain(folder)}${writable ? "" : ", read-only"}`,
      sites.length ? h("div", {class: "tab-row"}, sites.map((name) => h("a", {href: `${path}?${new URLSearchParams({site: name})}`, "data-key": `definition-${name}`}, plain(name)))) : h("p", {class: "crawl-empty"}, "No shop is defined yet.")));
    drawChanges(changes);
    return surveys.some((one) => one.state === "waiting" || one.state === "reading");
  }

  /* The log also has files of other pages, whose names no site can have. */
  const isSite = (name) => !name.includes(" ");

  function drawChanges(changes) {
    section("changes", changes, () => changes.length ? card("Changes", "the newest first", table([["When", ""], ["Who", ""], ["Site", "wide"], ["What", ""], ["", ""]],
      changes.map((one) => [when(one.at, true), plain(one.by), plain(one.site), h("a", {href: `${path}?change=${one.id}`, "data-key": `change-${one.id}`}, plain(one.action)),
        readOnly || one.masked || !isSite(one.site) ? "" : button("Undo", "danger", `undo-${one.id}`, async () => { if (await act("undo", {id: one.id}) && wanted.has("site")) location.reload(); })]), "Changes")) : null);
  }

  // --- the editor

  /* What is edited: `seen` is the hash of the file that a save replaces, `survey` the survey that wrote the text. */
  function editor({name, text, keys, seen, survey, fixed, pick}) {
    const area = h("textarea", {class: "form-control tab-text", name: "text", rows: "22", spellcheck: "false", wrap: "off", id: "definition-text", "aria-describedby": "definition-problems", readonly: readOnly}, "");
    area.value = text;
    const over = h("input", {type: "checkbox", class: "form-check-input", name: "over"});
    const overLabel = h("label", {class: "crawl-detail d-none", id: "over"}, over, " ", h("span", {}, ""));
    const problems = h("ul", {id: "definition-problems", class: "tab-problems", "aria-live": "polite"}), difference = h("div", {id: "difference"});
    const save = h("button", {type: "submit", class: "btn btn-primary btn-sm"}, "Save"), after = h("span", {id: "after-save", class: "tab-row"});
    const form = h("form", {class: "crawl-card tab-form", id: "editor"}, h("h2", {}, "Definition"),
      h("div", {class: "tab-row"}, field("Name", "name", {value: name, readonly: fixed || null, required: true}), optionFields(keys)),
      h("label", {class: "tab-label", for: "definition-text"}, "YAML"), area, problems,
      readOnly ? null : h("div", {class: "tab-row"}, save, overLabel, after), difference);
    let timer = null, turn = 0, there = seen, unapplied = false;

    function body(withKeys) {
      const values = {name: form.elements.name.value, text: area.value};
      if (withKeys) for (const key of ["schedule", "timezone", "rate", "queue", "tags"]) values[key] = form.elements[key].value;
      return values;
    }

    function showProblem({line, text: told}) {
      const made = h("button", {type: "button", class: "btn btn-link btn-sm"}, `line ${line}`);
      made.addEventListener("click", () => {
        const begin = area.value.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
        area.focus();
        area.setSelectionRange(begin, begin + (area.value.slice(begin).split("\n")[0] || "").length);
        area.scrollTop = (line - 5) * (area.scrollHeight / Math.max(1, area.value.split("\n").length));
      });
      return h("li", {class: "text-danger"}, made, " ", message(told));
    }

    async function check(withKeys) {
      unapplied = unapplied || withKeys;
      const mine = ++turn, told = await post("check", body(withKeys));
      if (mine !== turn) return;
      form.dataset.checked = String(Number(form.dataset.checked || 0) + 1);
      save.disabled = Boolean(told.error || told.problems.length);
      if (told.error) { problems.replaceChildren(h("li", {class: "text-danger"}, plain(told.error))); return; }
      unapplied = false;
      if (withKeys) area.value = told.text;
      else for (const key of ["schedule", "timezone", "rate", "queue", "tags"]) form.elements[key].value = told.keys[key] ?? "";
      there = told.there;
      overLabel.classList.toggle("d-none", fixed || !there);
      overLabel.lastChild.textContent = `overwrite ${plain(told.file)}, which is there already`;
      problems.replaceChildren(...told.problems.map(showProblem), ...told.warnings.map((warning) => h("li", {class: "crawl-detail"}, message(warning))),
        ...told.problems.length ? [] : [h("li", {class: "crawl-detail"}, "No errors.")]);
      difference.replaceChildren(...told.diff.length ? [h("p", {class: "tab-label"}, `Changes to ${plain(told.file)}`), diffOf(told.diff)] : []);
    }

    form.addEventListener("input", (event) => {
      if (event.target === over) return;
      clearTimeout(timer);
      // An answer that is under way knows nothing of what is typed now.
      turn++;
      // The form's values are in the text once they are checked; a save takes them along.
      unapplied = event.target !== area;
      timer = setTimeout(() => check(unapplied), CHECK_MS);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      clearTimeout(timer);
      save.disabled = true;
      const told = await post("save", {...body(unapplied), ...survey ? {survey} : {}, seen: fixed ? seen : over.checked ? there : ""});
      save.disabled = false;
      say(told.message || told.error, !told.error);
      if (told.error) { check(false); return; }
      if (told.text !== undefined) {
        difference.replaceChildren(h("p", {class: "tab-label"}, `The file to commit: ${plain(told.file)}`), h("pre", {class: "detail-code", id: "file-to-commit", tabindex: "0"}, plain(told.text)));
        return;
      }
      after.replaceChildren(button("Crawl now", "primary", "crawl", async () => {
        const opened = await crawl(told.saved);
        if (opened.crawl) after.append(h("a", {class: "btn btn-sm btn-outline-primary", href: `${pages}/${opened.crawl}`}, `Crawl ${opened.crawl}`));
      }), h("a", {class: "btn btn-sm btn-outline-primary", href: `${path}?${new URLSearchParams({site: told.saved})}`}, "Edit"));
      over.checked = false;
      if (fixed) location.reload();
      else { check(false); refresh(); }
    });
    check(false);
    if (!pick || readOnly) return form;
    const write = (made) => { area.value = made; area.dispatchEvent(new Event("input", {bubbles: true})); };
    return [window.crawlsPicker({source: survey ? {survey} : {site: name}, read: () => area.value, write}), form];
  }

  function edit(options) {
    const place = document.getElementById("definition");
    if (!place.firstChild) place.append(...[editor(options)].flat());
  }

  // --- one survey

  function drawSurvey({survey, folder, writable}) {
    const open = survey.state === "waiting" || survey.state === "reading", {found} = survey;
    document.getElementById("heading").textContent = plain(survey.saved || survey.name || survey.url);
    section("survey-state", [survey.state, survey.saved, survey.requests, survey.page, survey.problem], () => card("Survey", "",
      h("p", {"aria-live": "polite"}, stateOf(survey), " ", link(survey.url)),
      open ? h("p", {class: "crawl-detail"}, progress(survey)) : survey.problem && h("pre", {class: "detail-code tab-problem"}, message(survey.problem)),
      !writable && h("p", {class: "crawl-detail"}, `${plain(folder)} is read-only: Save shows the file to commit.`),
      open && !readOnly && button("Cancel", "danger", "cancel", () => act("cancel", {id: survey.id}))));
    if (survey.state !== "ready") return open;
    section("survey-fields", found, () => card("What was found", `${count(found.pages)} product pages, ${count(found.requests)} requests`, table(
      [["Field", ""], ["Source", "wide"], ["Pages", ""], ["Example", "wide"], ["Agrees with", ""]],
      found.table.map((row) => [plain(row.field), h("code", {}, plain(row.source)), plain(row.pages), plain(row.example), plain(row.agrees)]), "What was found"),
      found.interface && h("p", {class: "crawl-detail"}, plain(found.interface)), found.estimate && h("p", {class: "crawl-detail"}, plain(found.estimate)),
      found.notes.length ? h("ul", {class: "crawl-detail"}, found.notes.map((text) => h("li", {}, plain(text)))) : null));
    const place = document.getElementById("definition");
    if (!survey.saved) edit({name: survey.name, text: survey.text, keys: survey.keys, seen: "", survey: survey.id, fixed: false, pick: survey.pick});
    else if (!place.firstChild) place.append(h("p", {}, h("a", {class: "btn btn-sm btn-outline-primary", href: `${path}?${new URLSearchParams({site: survey.saved})}`}, "Edit definition")));
    section("survey-samples", found.samples, () => card("Sampled pages", count(found.samples.length), found.samples.map((page) => h("details", {class: "crawl-dead", "data-key": page.url},
      h("summary", {"data-key": `summary-${page.url}`}, h("span", {class: "crawl-dead-line"}, h("span", {class: `crawl-badge badge-${page.stored ? "good" : "bad"}`}, page.stored ? "stored" : "not stored"),
        h("b", {}, plain(page.values.title ?? page.id)), h("span", {class: "url"}, plain(page.url)))),
      h("div", {class: "crawl-dead-body"}, h("p", {}, link(page.url)),
        table([["Field", ""], ["Value", "wide"]], [["id", page.id], ...Object.entries(page.values)].map(([name, value]) => [plain(name), plain(typeof value === "object" ? JSON.stringify(value) : value)]), "Values"),
        page.problems.length ? h("ul", {}, page.problems.map((text) => h("li", {}, plain(text)))) : null)))));
    return false;
  }

  // --- a site that needs somebody

  function drawStanding(data) {
    const {standing, repair, site} = data;
    const sure = (text, kind, name, id) => {
      const made = h("button", {type: "button", class: `btn btn-sm btn-outline-${kind}`, "data-key": name}, text);
      made.addEventListener("click", async () => {
        if (made.dataset.asked !== "yes") { made.dataset.asked = "yes"; made.textContent = `Really ${name}?`; return; }
        made.disabled = true;
        await act(name, {id});
      });
      return made;
    };
    section("standing", [standing, repair?.state], () => standing && card("Its newest crawl", "", h("p", {}, h("span", {class: `crawl-badge badge-${/failed|suspect/.test(standing.state) ? "bad" : "quiet"}`}, plain(standing.state)), " ",
      h("a", {href: `${pages}/${standing.crawl}`}, `Crawl ${standing.crawl}`), standing.why ? [": ", message(standing.why)] : ""),
      standing.reasons.length > 0 && h("ul", {class: "crawl-why"}, standing.reasons.map((text) => h("li", {}, plain(text)))),
      !readOnly && h("div", {class: "tab-row"}, repair?.state !== "reading" && button("Look for a repair", "primary", "repair", () => act("repair", {site})), !standing.running && button("Crawl now", "primary", "crawl", () => crawl(site)),
        standing.may_decide && [sure("Accept", "primary", "accept", standing.crawl), sure("Reject", "danger", "reject", standing.crawl)])));
    section("repair", [repair, data.seen], () => repair && card("Repair", "", repair.state === "reading" ? h("p", {class: "crawl-detail", role: "status"}, "Product pages are being read, at the site's rate.") : [
      repair.problem && h("pre", {class: "detail-code tab-problem"}, message(repair.problem)),
      repair.fields?.length ? table([["Field", ""], ["Reads now", "num"], ["New source", "wide"], ["Then reads", "num"], ["Wrong", "num"], ["Certain", "num"]], repair.fields.map((one) => [plain(one.name), `${one.before.right} of ${one.before.pages}`,
        one.nearest ? [h("code", {}, plain(one.nearest)), one.value ? "" : " (not certain enough)"] : "none found", one.now ? `${one.now.right} of ${one.now.pages}` : "–", one.now ? count(one.now.wrong) : "–", one.now ? `${Math.round(one.confidence * 100)} %` : "–"]), "Proof")
        : repair.state === "ready" && h("p", {}, "Every field reads its known values: nothing to repair."),
      repair.known && h("p", {class: "crawl-detail"}, `${count(repair.pages)} product pages of today; known values from ${plain(repair.known)}.`),
      repair.diff && [diffOf(repair.diff.trimEnd().split("\n").slice(2)), readOnly ? null : repair.seen !== data.seen ? h("p", {class: "crawl-detail"}, "The definition has changed since.") : h("div", {class: "tab-row"}, button("Apply", "primary", "apply", async () => {
        const told = await post("save", {name: site, text: repair.text, seen: repair.seen});
        say(told.message || told.error, !told.error);
        if (told.text !== undefined) document.getElementById("repair").append(h("pre", {class: "detail-code", id: "file-to-commit", tabindex: "0"}, plain(told.text)));
        else if (!told.error) location.reload();
      }))]]));
  }

  function drawDefinition(data) {
    drawStanding(data);
    document.getElementById("heading").textContent = plain(data.site);
    section("survey-state", [data.file, data.text === null, data.writable], () => [h("p", {class: "crawl-detail"}, plain(data.file), data.text === null ? " is not there." : data.writable ? "" : " is read-only: Save shows the file to commit.", " ",
      h("a", {href: `${pages}/sites/${encodeURIComponent(data.site)}`}, "Its crawls"))]);
    if (data.text !== null) edit({name: data.site, text: data.text, keys: data.keys, seen: data.seen, fixed: true, pick: data.pick});
    drawChanges(data.changes);
    return data.repair?.state === "reading";
  }

  function drawChange({change}) {
    document.getElementById("heading").textContent = `${plain(change.site)}: ${plain(change.action)}`;
    section("changes", change, () => card(plain(change.file), `${plain(change.by)}`, h("p", {}, when(change.at, true), " ", isSite(change.site) && h("a", {href: `${path}?${new URLSearchParams({site: change.site})}`}, "Edit")), diffOf(change.diff)));
    return false;
  }

  // --- the page

  const shown = wanted.has("id") ? ["survey-state", "survey-fields", "definition", "survey-samples"] : wanted.has("site") ? ["survey-state", "standing", "repair", "definition", "changes"]
    : wanted.has("change") ? ["changes"] : ["surveys", "definitions", "changes"];
  if (shown[0] === "surveys" && !readOnly) box.append(addressForm(), saveForm());
  box.append(...shown.map((id) => h("section", {id})));
  start({
    address: () => `${api}?${wanted}`,
    draw: (data) => data.survey ? drawSurvey(data) : data.change ? drawChange(data) : data.site ? drawDefinition(data) : drawList(data),
  });
}());
