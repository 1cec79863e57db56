// The page: it knows who is signed in, keeps that visitor's basket in step with the node, and says how things stand.

import { openState } from "/syncline/state.js";

const GOODS = [
  { id: "apples", name: "Apples", note: "a kilo", price: 320 },
  { id: "bread", name: "Rye bread", note: "a loaf", price: 450 },
  { id: "coffee", name: "Coffee", note: "250 g, ground", price: 690 },
  { id: "honey", name: "Honey", note: "a jar", price: 780 },
  { id: "milk", name: "Milk", note: "a litre", price: 160 },
  { id: "soap", name: "Soap", note: "a bar", price: 240 },
];
const WORDS = {
  follows: "In step, through another tab",
  "in-step": "In step",
  behind: "Sending …",
  unreachable: "Offline: kept on this device",
  "clock-off": "This device's clock is wrong",
  refused: "Not accepted right now, trying again",
  "needs-auth": "Not in step",
};
const REASONS = {
  "token-missing": "You are signed out. Your basket is kept on this device.",
  "other-user": "This basket belongs to somebody else.",
};

const at = (id) => document.getElementById(id);
const euros = (cents) => new Intl.NumberFormat("en", { style: "currency", currency: "EUR" }).format(cents / 100);
const { node } = await ask("/config");
let basket;

at("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const { name } = await ask("/sign-in", { name: at("name").value.trim() });
    comeIn(name);
  } catch (error) {
    at("door-trouble").textContent = error.message;
    at("door-trouble").hidden = false;
  }
});

at("sign-out").addEventListener("click", async () => {
  const { unsent } = basket;
  if (unsent > 0 && !confirm(`${unsent === 1 ? "One change was" : `${unsent} changes were`} not sent yet and will be lost. Sign out all the same?`)) return;
  // Nothing of this visitor stays on the device, in no tab.
  await basket.close({ erase: true });
  await ask("/sign-out", {});
});

at("go-on").addEventListener("click", async () => {
  const { name } = await ask("/me");
  if (name === null) return showDoor();
  basket.resumeBridge();
});

const { name } = await ask("/me");
if (name === null) showDoor();
else comeIn(name);

function comeIn(name) {
  // The database is named by the visitor, so that two of them on one device never meet.
  basket = openState({ name: "basket", user: name, bridge: { url: node, space: `basket-${name}`, token } });
  basket.subscribe((event) => (event.type === "closed" ? showDoor() : show()));
  at("visitor-name").textContent = name;
  for (const [id, isShown] of [["door", false], ["inside", true], ["visitor", true]]) at(id).hidden = !isShown;
  show();
}

function showDoor() {
  for (const [id, isShown] of [["door", true], ["inside", false], ["visitor", false]]) at(id).hidden = !isShown;
  at("door-trouble").hidden = true;
  at("name").focus();
}

// Asked by the package when it needs one. Of several tabs one asks. `null`: nobody is signed in.
async function token() {
  const answer = await fetch("/token");
  if (answer.status === 401) return null;
  if (!answer.ok) throw new Error(`the shop answered ${answer.status}`);
  return (await answer.json()).token;
}

function show() {
  at("shelf").replaceChildren(...GOODS.map(onShelf));
  const chosen = GOODS.filter(({ id }) => basket.has(id));
  at("basket").replaceChildren(...chosen.map(inBasket));
  at("empty").hidden = chosen.length > 0;
  at("total").hidden = chosen.length === 0;
  at("total").textContent = `Together ${euros(chosen.reduce((sum, { id, price }) => sum + price * basket.get(id).n, 0))}`;
  const { status, detail } = basket.link ?? { status: "behind" };
  at("link").textContent = WORDS[status] ?? status;
  at("link").dataset.status = status;
  at("need").hidden = status !== "needs-auth";
  at("need-words").textContent = REASONS[detail] ?? `The node does not let you in: ${detail}.`;
}

function onShelf({ id, name, note, price }) {
  const add = element("button", { type: "button", "aria-label": `Add ${name}` }, "Add");
  add.addEventListener("click", () => change(id, 1));
  return element("li", {}, element("div", {}, element("strong", {}, name), element("span", { class: "note" }, note)), element("span", { class: "price" }, euros(price)), add);
}

function inBasket({ id, name, price }) {
  const { n } = basket.get(id);
  const step = (label, by) => {
    const button = element("button", { type: "button", class: "step", "aria-label": `${by > 0 ? "One more" : "One less"}: ${name}` }, label);
    button.addEventListener("click", () => change(id, by));
    return button;
  };
  const steps = element("div", { class: "steps" }, step("−", -1), element("span", { class: "n" }, String(n)), step("+", 1));
  return element("li", { "data-id": id }, element("strong", {}, name), steps, element("span", { class: "price" }, euros(price * n)));
}

function change(id, by) {
  const n = (basket.get(id)?.n ?? 0) + by;
  return n > 0 ? basket.put(id, { n }) : basket.remove(id);
}

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, options);
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  return said;
}

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
