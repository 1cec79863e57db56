// The documents: the frame around them, and contents that are folded on a phone.

import { openPage } from "./app.js";

openPage();
const contents = /** @type {HTMLDetailsElement | null} */ (document.querySelector(".docs-contents"));
if (contents && matchMedia("(max-width: 55rem)").matches) contents.open = false;
