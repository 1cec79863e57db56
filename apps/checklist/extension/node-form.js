// The form for the node's address.

import { checkNodeAddress, onNodeAddress, readNodeAddress, writeNodeAddress } from "./node-address.js";

export function mountNodeForm(form) {
  const address = form.elements.address;
  const message = form.querySelector(".message");
  const hint = message.textContent;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    save();
  });
  address.addEventListener("input", () => say(hint, "quiet"));
  onNodeAddress((saved) => {
    // What somebody is typing here is not overwritten by a change made elsewhere.
    if (document.activeElement !== address) address.value = saved;
  });
  readNodeAddress().then(
    (saved) => (address.value = saved),
    (error) => say(`The settings cannot be read: ${error.message}`, "bad"),
  );

  async function save() {
    const checked = checkNodeAddress(address.value);
    if (checked.problem) {
      say(checked.problem, "bad");
      address.focus();
      return;
    }
    try {
      await writeNodeAddress(checked.address);
      address.value = checked.address;
      say("Saved.", "good");
    } catch (error) {
      say(`Not saved: ${error.message}`, "bad");
    }
  }

  function say(text, tone) {
    message.textContent = text;
    message.dataset.tone = tone;
    address.setAttribute("aria-invalid", String(tone === "bad"));
  }
}
