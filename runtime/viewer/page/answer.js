// The form in which a person answers what a run asks.

/** Fields for what a JSON Schema asks; what cannot be asked in fields is asked as JSON. */
function answerForm(schema, answer, say) {
  const fields = [];
  const add = (name, of) => {
    const label = of?.title ?? name;
    const field = fieldFor(of);
    fields.push({ name, ...field });
    return make("label.field", {}, make("span", { textContent: label, dir: "auto" }), field.input);
  };
  const kind = schema?.type;
  const simple = kind === "object" && schema.properties && Object.values(schema.properties).every((each) => ["string", "boolean", "integer", "number"].includes(each?.type) || each?.enum);
  const rows = simple ? Object.entries(schema.properties).map(([name, of]) => add(name, of)) : [add("answer", schema)];
  if (kind === "boolean") {
    return make("div.answer", {}, make("button.main", { type: "button", textContent: "Yes", onclick: () => answer(true) }), make("button", { type: "button", textContent: "No", onclick: () => answer(false) }));
  }
  return make("form.answer", {
    onsubmit: (event) => {
      event.preventDefault();
      try {
        const values = Object.fromEntries(fields.map(({ name, read }) => [name, read()]).filter(([, value]) => value !== undefined));
        answer(simple ? values : values.answer);
      } catch (error) {
        say(`that is no JSON: ${error.message}`);
      }
    },
  }, rows, make("button.main", { textContent: "Answer" }));
}

function fieldFor(of) {
  if (of?.enum) {
    const input = make("select", {}, of.enum.map((each, at) => make("option", { value: String(at), textContent: String(each) })));
    return { input, read: () => of.enum[Number(input.value)] };
  }
  if (of?.type === "boolean") {
    const input = make("select", {}, make("option", { value: "true", textContent: "yes" }), make("option", { value: "false", textContent: "no" }));
    return { input, read: () => input.value === "true" };
  }
  if (of?.type === "integer" || of?.type === "number") {
    const input = make("input", { type: "number", step: of.type === "integer" ? "1" : "any", required: true });
    return { input, read: () => Number(input.value) };
  }
  const input = make("textarea", { rows: 2, dir: "auto" });
  const asText = !of?.type || of.type === "string";
  return { input, read: () => (asText ? input.value : JSON.parse(input.value)) };
}
