/* The page "Notifications" of the Crawls tab: recipients, rules with what they would have said, what was sent, and an editor of rules. */
(function () {
  "use strict";

  const {h, plain, message, section, card, table, field, diffOf, count, when, act, post, say, refresh, api, pages, readOnly, mayEdit, start, button} = window.crawlsTab;
  const box = document.getElementById("own-page"), CHECK_MS = 500;
  let preview = null, events = [], opened = false, writable = false;

  function trouble(text) {
    return text && h("pre", {class: "detail-code tab-problem"}, message(text));
  }

  // --- recipients

  const titleOf = (one) => `line ${one.line} (${plain(one.kind)}${one.host ? `, ${plain(one.host)}` : ""})`;

  function recipientForm() {
    const submit = h("button", {type: "submit", class: "btn btn-primary btn-sm"}, "Add recipient");
    const form = h("form", {class: "crawl-card tab-row", id: "add-recipient"},
      field("Address", "address", {required: true, maxlength: "2000", placeholder: "https://…, mailtos://…", "aria-describedby": "address-help", size: "34"}),
      field("Names, if any", "names", {placeholder: "garden, ops"}), submit,
      h("p", {class: "crawl-detail", id: "address-help"}, "An address is never shown again. A recipient with names gets only the alerts of rules that name it."));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      const good = await act("add", {address: form.elements.address.value, names: form.elements.names.value});
      submit.disabled = false;
      if (good) form.reset();
      else form.elements.address.focus();
    });
    return form;
  }

  function removeButton(one) {
    const made = button("Remove", "danger", `remove-${one.key}`, async () => {
      if (made.dataset.asked !== "yes") { made.dataset.asked = "yes"; made.textContent = "Really remove?"; return; }
      await act("remove", {line: one.line, key: one.key});
    });
    made.setAttribute("aria-describedby", `recipient-${one.line}`);
    return made;
  }

  function drawRecipients({file, problem, list, writable: canWrite}, log) {
    const form = document.getElementById("add-recipient");
    if (form) form.classList.toggle("d-none", !file || !log || !canWrite);
    section("recipients", [file, problem, list, canWrite, log], () => card("Recipients", file ? `${count(list.length)} in ${plain(file)}` : "",
      !file && h("p", {class: "crawl-empty"}, h("code", {}, "SCRAPER_ALERTS"), " names no file of recipients: nothing is sent."),
      file && !canWrite && h("p", {class: "crawl-detail"}, log ? `${plain(file)} is read-only: change it where it comes from.` : "The plug-in setup, which logs changes, is off."),
      trouble(problem),
      list.length > 0 && table([["Recipient", "wide"], ["Gets", ""], ["", ""]], list.map((one) => [h("span", {id: `recipient-${one.line}`}, titleOf(one)),
        one.names.length ? `alerts for ${plain(one.names.join(", "))}` : "crawl alerts, and rules that name nobody",
        readOnly ? "" : h("div", {class: "tab-row"}, button("Test", "primary", `test-${one.key}`, () => act("test", {line: one.line, key: one.key}), `Test ${titleOf(one)}`),
          mayEdit && canWrite && removeButton(one))]), "Recipients")));
  }

  // --- rules

  function said(rule) {
    const found = preview?.rules[rule.name];
    if (!preview) return "…";
    if (preview.error || !found) return "–";
    if (!found.alerts) return "0";
    return h("details", {"data-key": `said-${rule.name}`}, h("summary", {"data-key": `said-summary-${rule.name}`}, `${count(found.alerts)}`),
      h("ul", {class: "crawl-why"}, found.latest.map((one) => h("li", {}, when(one.at, true), " ", plain(one.text)))),
      found.alerts > found.latest.length && h("p", {class: "crawl-detail"}, `The newest ${found.latest.length}.`));
  }

  function drawRules({file, problem, list, writable: canWrite}, log) {
    writable = canWrite;
    section("rules", [file, problem, list, preview, log], () => card("Price alert rules", file ? plain(file) : "", trouble(problem),
      !file && h("p", {class: "crawl-detail"}, h("code", {}, "SCRAPER_ALERT_RULES"), " names no file of rules for all sites; definitions may have rules of their own."),
      list.length > 0 && table([["Rule", ""], ["When", ""], ["Of", "wide"], ["To", ""], ["Alerts in 7 days", "num"], ["Would have said", "wide"]], list.map((rule) => [
        rule.definition && mayEdit && log ? h("a", {href: `${pages}/setup?${new URLSearchParams({site: rule.definition})}`, "data-key": `rule-${rule.name}`}, plain(rule.name)) : plain(rule.name),
        [plain(rule.when), rule.every && h("div", {class: "crawl-detail"}, `one message per ${plain(rule.every)}`)], plain(rule.of),
        [rule.to.length ? plain(rule.to.join(", ")) : "recipients without a name", !rule.reaches && h("div", {class: "crawl-detail"}, "no such recipient")],
        [count(rule.alerts), rule.waiting > 0 && h("div", {class: "crawl-detail"}, `${count(rule.waiting)} waiting`)], said(rule)]), "Price alert rules"),
      preview && list.length > 0 && h("p", {class: "crawl-detail"}, preview.error ? plain(preview.error) : ["Would have said: by the changes from ", when(preview.since, true), " to ", when(preview.until, true), "."]),
      !list.length && !problem && h("p", {class: "crawl-empty"}, "There is no rule."),
      file && mayEdit && log && !opened && button("Edit rules", "primary", "edit-rules", openEditor)));
  }

  async function loadPreview() {
    const answer = await fetch(`${api}?preview=1`, {credentials: "same-origin", signal: AbortSignal.timeout(20000)}).catch(() => null);
    const told = answer ? await answer.json().catch(() => ({})) : {};
    preview = told.preview || {error: told.error || "What rules would have said is not known now.", rules: {}};
    refresh();
  }

  /* A value of YAML: JSON's form is one too. */
  const yaml = (text) => /^[\w][\w %.-]*$/.test(text) && !/^(true|false|null|yes|no|on|off|[\d.-]+)$/i.test(text.trim()) ? text : JSON.stringify(text);

  function ruleForm(area) {
    const submit = h("button", {type: "submit", class: "btn btn-outline-primary btn-sm"}, "Add to the text");
    const form = h("form", {class: "tab-row", id: "new-rule"}, field("Rule's name", "name", {required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]*", title: "letters, digits, - and _"}),
      field("When", "when", {required: true, placeholder: "fell 5%"}, events), field("Site, if one", "site", {}), field("To, if not all", "to", {placeholder: "garden"}), field("Digest", "every", {placeholder: "at once"}, ["1h", "1d"]), submit);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = [...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value);
      const line = `- {${values.map(([name, value]) => `${name}: ${name === "to" ? JSON.stringify(value.split(/[\s,]+/)) : yaml(value)}`).join(", ")}}\n`;
      area.value = `${area.value}${!area.value || area.value.endsWith("\n") ? "" : "\n"}${line}`;
      area.dispatchEvent(new Event("input", {bubbles: true}));
      form.reset();
      area.scrollTop = area.scrollHeight;
    });
    return form;
  }

  async function openEditor() {
    const told = await post("rules", {});
    if (told.error) { say(told.error, false); return; }
    opened = true;
    const area = h("textarea", {class: "form-control tab-text", name: "text", rows: "14", spellcheck: "false", wrap: "off", id: "rules-text", "aria-describedby": "rules-problems"}, "");
    area.value = told.text;
    const problems = h("ul", {id: "rules-problems", class: "tab-problems", "aria-live": "polite"}), difference = h("div", {id: "rules-difference"});
    const save = h("button", {type: "submit", class: "btn btn-primary btn-sm"}, "Save rules");
    const form = h("form", {class: "tab-form"}, h("label", {class: "tab-label", for: "rules-text"}, "Rules as YAML"), area, problems, h("div", {class: "tab-row"}, save), difference);
    let timer = null, turn = 0, {seen} = told;

    async function check() {
      const mine = ++turn, answer = await post("check", {text: area.value});
      if (mine !== turn) return;
      const found = answer.error ? [{line: 0, text: answer.error}] : answer.problems;
      save.disabled = found.length > 0;
      problems.replaceChildren(...found.map(({line, text}) => h("li", {class: "text-danger"}, line ? `line ${line}: ` : "", message(text))), ...found.length ? [] : [h("li", {class: "crawl-detail"}, "No errors.")]);
      difference.replaceChildren(...answer.diff?.length ? [h("p", {class: "tab-label"}, `Changes to ${plain(told.file)}`), diffOf(answer.diff)] : []);
      form.dataset.checked = String(Number(form.dataset.checked || 0) + 1);
    }

    area.addEventListener("input", () => {
      clearTimeout(timer);
      turn++;
      save.disabled = true;
      timer = setTimeout(check, CHECK_MS);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      save.disabled = true;
      const saved = await post("save", {text: area.value, seen});
      say(saved.message || saved.error, !saved.error);
      if (saved.error) { save.disabled = false; return; }
      if (saved.text !== undefined) {
        difference.replaceChildren(h("p", {class: "tab-label"}, `The file to commit: ${plain(saved.file)}`), h("pre", {class: "detail-code", id: "file-to-commit", tabindex: "0"}, plain(saved.text)));
        return;
      }
      seen = saved.seen;
      check();
      loadPreview();
    });
    document.getElementById("rules-editor").replaceChildren(h("div", {class: "crawl-card tab-form"}, h("h2", {}, "Rules for all sites"),
      !writable && h("p", {class: "crawl-detail"}, `${plain(told.file)} is read-only: Save shows the file to commit.`), ruleForm(area), form));
    area.focus();
    check();
    refresh();
  }

  // --- what was sent

  function stateOf(one) {
    const [text, tone] = one.done_at && !one.error ? ["sent", "good"] : one.done_at ? ["failed", "bad"] : ["waiting", "waiting"];
    return h("span", {class: `crawl-badge badge-${tone}`}, text);
  }

  function drawSent(sent) {
    section("sent", sent, () => card("What was sent", "the newest first", sent.length ? table([["When", ""], ["State", ""], ["About", ""], ["What", "wide"], ["Sent to", ""], ["Error", "wide"]],
      sent.map((one) => [when(one.done_at || one.at, true), stateOf(one), plain(one.what),
        one.crawl === null ? plain(one.text) : h("a", {href: `${pages}/${one.crawl}`, "data-key": `crawl-${one.crawl}`}, plain(one.text)), plain(one.delivered.join(", ")) || "–",
        one.error ? [plain(one.error), h("div", {class: "crawl-detail"}, `${count(one.attempts)} ${one.attempts === 1 ? "try" : "tries"}`)] : ""]), "What was sent")
      : h("p", {class: "crawl-empty"}, "Nothing was sent yet.")));
  }

  box.append(h("section", {id: "recipients"}), ...mayEdit ? [recipientForm()] : [], h("section", {id: "rules"}), h("section", {id: "rules-editor"}), h("section", {id: "sent"}));
  start({
    address: () => api,
    draw(data) {
      ({events} = data);
      drawRecipients(data.recipients, data.log);
      drawRules(data.rules, data.log);
      drawSent(data.sent);
      return data.sent.some((one) => !one.done_at);
    },
  });
  loadPreview();
}());
